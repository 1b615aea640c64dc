// Whether a token is accepted, and what it may do: learned from the API's own answers.

import { ApiError, ask, forget, hold } from "./api.js";

/**
 * `entered` once a token was accepted; `may.config`, `may.sessions`: true, false, or null for not known; `scope` is ""
 * where it is not known.
 */
export const session = { entered: false, scope: "", reason: "", may: { config: null, sessions: null } };

const PROBES = { config: ["config/revisions", { limit: 1 }], sessions: ["sessions", { limit: 1 }] };

/**
 * Signs in: one request proves the token, a second one tells the scope, because each scope is refused different reads.
 * Raises ApiError when the token is not accepted; then none is held.
 */
export async function enter(token) {
  hold(token);
  try {
    // One after the other: a wrong token counts as one failure.
    const config = await mayRead(PROBES.config);
    const sessions = await mayRead(PROBES.sessions);
    Object.assign(session, { entered: true, reason: "", may: { config, sessions }, scope: scopeOf(config, sessions) });
  } catch (error) {
    forget();
    throw error;
  }
}

/** Forgets who was signed in; `reason` is shown where one signs in again. */
export function leave(reason) {
  Object.assign(session, { entered: false, scope: "", reason, may: { config: null, sessions: null } });
}

async function mayRead([path, query]) {
  try {
    await ask(path, { query });
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.kind === "forbidden") return false;
    if (error instanceof ApiError && error.kind === "missing") return null;
    throw error;
  }
}

function scopeOf(config, sessions) {
  if (config === null || sessions === null) return "";
  if (config && sessions) return "read";
  if (config) return "config";
  return sessions ? "operate" : "";
}

/** Why this token cannot do what `scope` may; "" when nothing is known against it. */
export const lacking = (scope) =>
  session.scope === "" || session.scope === scope
    ? ""
    : `This needs a token with the scope ${scope}; yours has ${session.scope}.`;
