{{- define "wicketgate.name" -}}
{{- printf "%s-%s" .root.Release.Name .part | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "wicketgate.selector" -}}
app.kubernetes.io/name: wicketgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "wicketgate.labels" -}}
{{ include "wicketgate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "wicketgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "wicketgate.pod" -}}
# Kubernetes would inject GATEWAY_* of Services, among them names that are settings.
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "wicketgate.container" -}}
image: {{ include "wicketgate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "wicketgate.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
{{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
{{- end }}
{{- end -}}

{{/* Where the gateway's certificate comes from: "secret", "acme", or nothing. */}}
{{- define "wicketgate.tls" -}}
{{- if and .Values.tls.secret .Values.tls.acme.directory -}}
{{- fail "tls: the certificate comes from a Secret or from an authority; remove one of the two" -}}
{{- end -}}
{{- if .Values.tls.secret }}secret{{ else if .Values.tls.acme.directory }}acme{{ end -}}
{{- end -}}

{{/* Whether challenges have pods of their own. */}}
{{- define "wicketgate.responder" -}}
{{- with .Values.tls.acme -}}
{{- if .responder.enabled -}}
{{- if or (not .directory) (ne .challenge "http-01") -}}
{{- fail "tls.acme.responder: it answers the http-01 challenges of tls.acme.directory; turn it off" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The secret by which the gateway proves itself to the provider. */}}
{{- define "wicketgate.oidcKey" -}}
oidc-client-{{ if eq .Values.oidc.clientAuth "private_key_jwt" }}key{{ else }}secret{{ end }}
{{- end -}}

{{- define "wicketgate.secretKeys" -}}
{{- $keys := list (include "wicketgate.oidcKey" .) "session-secret" "identity-key" "metrics-token" "state-url" -}}
{{- if .Values.access.url }}{{ $keys = append $keys "access-token" }}{{ end -}}
{{- if eq (include "wicketgate.tls" .) "acme" -}}
{{- $keys = append $keys "tls-store-secret" -}}
{{- if .Values.tls.acme.eabKid }}{{ $keys = append $keys "acme-eab-hmac" }}{{ end -}}
{{- if eq .Values.tls.acme.challenge "dns-01" }}{{ $keys = append $keys "dns-writer-token" }}{{ end -}}
{{- end -}}
{{- concat $keys .Values.gateway.secretKeys | uniq | toJson -}}
{{- end -}}

{{- define "wicketgate.tlsEnv" -}}
{{- $tls := include "wicketgate.tls" . -}}
{{- if eq $tls "secret" }}
- {name: GATEWAY_TLS_CERT, value: /run/secrets/wicketgate-tls/tls.crt}
- {name: GATEWAY_TLS_KEY, value: /run/secrets/wicketgate-tls/tls.key}
{{- else if eq $tls "acme" }}
{{- with .Values.tls.acme }}
- {name: GATEWAY_ACME_DIRECTORY, value: {{ .directory | quote }}}
- {name: GATEWAY_ACME_NAMES, value: {{ required "tls.acme.names: name what the certificate is for" (join "," .names) | quote }}}
{{- with .email }}
- {name: GATEWAY_ACME_EMAIL, value: {{ . | quote }}}
{{- end }}
- {name: GATEWAY_TLS_STORE_SECRET_FILE, value: /run/secrets/wicketgate/tls-store-secret}
{{- with .eabKid }}
- {name: GATEWAY_ACME_EAB_KID, value: {{ . | quote }}}
- {name: GATEWAY_ACME_EAB_HMAC_FILE, value: /run/secrets/wicketgate/acme-eab-hmac}
{{- end }}
{{- if eq .challenge "dns-01" }}
- {name: GATEWAY_ACME_CHALLENGE, value: dns-01}
- {name: GATEWAY_ACME_DNS_WRITER_URL, value: {{ required "tls.acme.dnsWriterUrl: dns-01 needs a service that writes records" .dnsWriterUrl | quote }}}
- {name: GATEWAY_ACME_DNS_WRITER_TOKEN_FILE, value: /run/secrets/wicketgate/dns-writer-token}
{{- end }}
{{- end }}
{{- end }}
{{- if $tls }}
- {name: GATEWAY_TLS_MIN_VERSION, value: {{ .Values.tls.minVersion | quote }}}
{{- end }}
{{- end -}}

{{/* What both planes must read alike, so that a table that one accepts is one that the other runs. */}}
{{- define "wicketgate.env" -}}
- {name: GATEWAY_ENV, value: production}
- {name: GATEWAY_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
{{- end -}}

{{- define "wicketgate.podSpread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "wicketgate.selector" . | nindent 8 }}
{{- end -}}
