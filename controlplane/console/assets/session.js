// Whether a token is accepted, as whom it acts, and what it may do.

import { ask, forget, hold } from "./api.js";

/** `entered` once a token was accepted. Before that `operator` and `scope` are "", and what it may do is null. */
export const session = {
  entered: false,
  operator: "",
  scope: "",
  reason: "",
  may: { config: null, sessions: null },
};

/** Signs in: one request proves the token, and tells as whom it acts. Raises ApiError where it is not accepted. */
export async function enter(token) {
  hold(token);
  try {
    const { operator, scope } = (await ask("me")).data;
    const may = { config: scope !== "operate", sessions: scope !== "config" };
    Object.assign(session, { entered: true, reason: "", operator, scope, may });
  } catch (error) {
    forget();
    throw error;
  }
}

/** Forgets who was signed in; `reason` is shown where one signs in again. */
export function leave(reason) {
  const may = { config: null, sessions: null };
  Object.assign(session, { entered: false, operator: "", scope: "", reason, may });
}

/** Why this token cannot do what `scope` may; "" when nothing is known against it. */
export const lacking = (scope) =>
  session.scope === "" || session.scope === scope
    ? ""
    : `This needs a token with the scope ${scope}; yours has ${session.scope}.`;
