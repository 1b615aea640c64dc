// Verifies the identity that Wicketgate signs for an upstream. Copy this file into your application; it needs `jose`.
//
//   const key = await importSPKI(publicKeyPem, "ES256");          // of `gateway identity-key --public`
//   createServer(async (request, response) => {
//     const caller = await verifyIdentity(request, key);           // throws IdentityRefused: answer 401
//     ...
//   });
//
// The guide is docs/upstream-identity.md. Nothing here trusts a header before the signature over all of them holds.

import { Buffer } from "node:buffer";
import { compactVerify, type CryptoKey } from "jose";

/** Who calls, as the gateway states it. What is absent is an empty string or an empty list. */
export interface Caller {
  subject: string;
  email: string;
  workspaceId: string;
  roles: string[];
}

/** What is needed of a request; `IncomingMessage` of node:http has it. `url` is the request target as received. */
export interface ReceivedRequest {
  method?: string | undefined;
  url?: string | undefined;
  rawHeaders: string[];
}

/** The request states no identity that can be trusted. The message is for your log. */
export class IdentityRefused extends Error {}

const VERSION = "v5=";
const SIGNED_HEADERS = [
  "x-gateway-signature",
  "x-gateway-user-id",
  "x-gateway-email",
  "x-gateway-roles",
  "x-gateway-workspace-id",
  "x-forwarded-host",
] as const;

/** The caller of a request, once the signature over request and headers holds. Rejects with `IdentityRefused`. */
export async function verifyIdentity(request: ReceivedRequest, publicKey: CryptoKey): Promise<Caller> {
  const headers = singleValues(request.rawHeaders);
  const [protectedHeader, signature] = detachedSignature(headers.get("x-gateway-signature") ?? "");
  const roles = headers.get("x-gateway-roles") ?? "";
  const caller: Caller = {
    subject: headers.get("x-gateway-user-id") ?? "",
    email: headers.get("x-gateway-email") ?? "",
    workspaceId: headers.get("x-gateway-workspace-id") ?? "",
    roles: roles === "" ? [] : roles.split(","),
  };
  if (caller.subject === "") throw new IdentityRefused("no subject");

  const payload = canonicalPayload(request, headers.get("x-forwarded-host") ?? "", caller);
  const token = `${protectedHeader}.${Buffer.from(payload, "utf8").toString("base64url")}.${signature}`;
  let type: unknown;
  try {
    const verified = await compactVerify(token, publicKey, { algorithms: ["ES256"] });
    type = verified.protectedHeader.typ;
  } catch {
    throw new IdentityRefused("the signature does not belong to this request");
  }
  if (type !== "gateway-identity") throw new IdentityRefused("the signature is of another type");
  return caller;
}

/** The signed text: these nine fields, in this order. JSON.stringify writes it as the gateway does. */
export function canonicalPayload(request: ReceivedRequest, host: string, caller: Caller): string {
  const target = request.url ?? "";
  const queryAt = target.indexOf("?");
  return JSON.stringify({
    v: "v5",
    method: request.method ?? "",
    path: queryAt < 0 ? target : target.slice(0, queryAt),
    query: queryAt < 0 ? "" : target.slice(queryAt),
    host,
    subject: caller.subject,
    workspaceId: caller.workspaceId,
    email: caller.email,
    roles: caller.roles, // in the header's order: the gateway has sorted them
  });
}

/** The version names algorithm and key: `v5` is ES256 with the deployment's key, and nothing else is accepted. */
function detachedSignature(value: string): [protectedHeader: string, signature: string] {
  if (!value.startsWith(VERSION)) throw new IdentityRefused("no signature of version 5");
  const [protectedHeader, payload, signature, ...more] = value.slice(VERSION.length).split(".");
  if (!protectedHeader || payload !== "" || !signature || more.length > 0) {
    throw new IdentityRefused("not a compact signature with a detached payload");
  }
  return [protectedHeader, signature];
}

/** Node hands header bytes over as latin-1; the gateway writes UTF-8. A repeated header has no one meaning. */
function singleValues(rawHeaders: string[]): Map<string, string> {
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const values = new Map<string, string>();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase();
    if (!(SIGNED_HEADERS as readonly string[]).includes(name)) continue;
    if (values.has(name)) throw new IdentityRefused(`${name} is repeated`);
    try {
      values.set(name, utf8.decode(Buffer.from(rawHeaders[at + 1]!, "latin1")));
    } catch {
      throw new IdentityRefused(`${name} is not UTF-8`);
    }
  }
  return values;
}
