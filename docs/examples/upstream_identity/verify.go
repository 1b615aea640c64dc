// Package identity verifies the identity that Wicketgate signs for an upstream. Copy this file; it needs the standard
// library alone, of Go 1.19 or later.
//
//	key, err := identity.ParseKey(publicKeyPEM)    // of `gateway identity-key --public`
//	caller, err := identity.Verify(request, key)   // an error: answer 401
//
// The guide is docs/upstream-identity.md. Nothing here trusts a header before the signature over all of them holds.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Caller is who calls, as the gateway states it; what is absent is empty.
type Caller struct {
	Subject     string   `json:"subject"`
	Email       string   `json:"email"`
	WorkspaceID string   `json:"workspaceId"`
	Roles       []string `json:"roles"`
}

const (
	signature   = "X-Gateway-Signature"
	userID      = "X-Gateway-User-Id"
	email       = "X-Gateway-Email"
	roles       = "X-Gateway-Roles"
	workspaceID = "X-Gateway-Workspace-Id"
	host        = "X-Forwarded-Host"
)

// ParseKey reads the deployment's public key, a P-256 key in PEM.
func ParseKey(text []byte) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, isEC := parsed.(*ecdsa.PublicKey)
	if !isEC || key.Curve != elliptic.P256() {
		return nil, errors.New("not a P-256 key")
	}
	return key, nil
}

// Verify gives the caller of a request once the signature over request and headers holds. Its error is for your log.
// Call it before anything changes the request's path or headers.
func Verify(request *http.Request, key *ecdsa.PublicKey) (*Caller, error) {
	values := map[string]string{}
	for _, name := range []string{signature, userID, email, roles, workspaceID, host} {
		sent := request.Header.Values(name)
		if len(sent) > 1 {
			return nil, fmt.Errorf("%s is repeated", name)
		}
		if len(sent) == 1 {
			if !utf8.ValidString(sent[0]) {
				return nil, fmt.Errorf("%s is not UTF-8", name)
			}
			values[name] = sent[0]
		}
	}
	caller := &Caller{values[userID], values[email], values[workspaceID], []string{}}
	if caller.Subject == "" {
		return nil, errors.New("no subject")
	}
	if values[roles] != "" {
		// In the header's order: the gateway has sorted them.
		caller.Roles = strings.Split(values[roles], ",")
	}
	payload := canonicalPayload(request.Method, request.RequestURI, values[host], caller)
	return caller, check(values[signature], payload, key)
}

// check verifies a compact JWS with a detached payload. The version names algorithm and key: v5 is ES256, whatever the
// token asks for.
func check(value string, payload []byte, key *ecdsa.PublicKey) error {
	parts := strings.Split(strings.TrimPrefix(value, "v5="), ".")
	if !strings.HasPrefix(value, "v5=") || len(parts) != 3 || parts[1] != "" {
		return errors.New("no signature of version 5 with a detached payload")
	}
	var protected struct {
		Algorithm string   `json:"alg"`
		Type      string   `json:"typ"`
		Critical  []string `json:"crit"`
	}
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || json.Unmarshal(header, &protected) != nil {
		return errors.New("no protected header")
	}
	if protected.Algorithm != "ES256" || protected.Type != "gateway-identity" || protected.Critical != nil {
		return errors.New("a signature of another kind")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 64 {
		return errors.New("a signature of another length")
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)))
	if !ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])) {
		return errors.New("the signature does not belong to this request")
	}
	return nil
}

// canonicalPayload writes the signed bytes: nine fields in this order, as JSON without spaces, in UTF-8. Go's own
// encoder escapes more than the format does.
func canonicalPayload(method, target, host string, caller *Caller) []byte {
	path, query := target, ""
	if at := strings.IndexByte(target, '?'); at >= 0 {
		path, query = target[:at], target[at:]
	}
	quoted := make([]string, len(caller.Roles))
	for at, role := range caller.Roles {
		quoted[at] = quote(role)
	}
	return []byte(`{"v":"v5","method":` + quote(method) + `,"path":` + quote(path) + `,"query":` + quote(query) +
		`,"host":` + quote(host) + `,"subject":` + quote(caller.Subject) + `,"workspaceId":` + quote(caller.WorkspaceID) +
		`,"email":` + quote(caller.Email) + `,"roles":[` + strings.Join(quoted, ",") + `]}`)
}

func quote(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, each := range text {
		switch {
		case each == '"' || each == '\\':
			out.WriteByte('\\')
			out.WriteRune(each)
		case each < 0x20:
			fmt.Fprintf(&out, `\u%04x`, each)
		default:
			out.WriteRune(each)
		}
	}
	out.WriteByte('"')
	return out.String()
}
