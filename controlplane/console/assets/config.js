// The route table's part of the API.

import { ApiError, ask } from "./api.js";

const LONG_MS = 60_000;

/** The active table: `{ text, table, revision }`; `text` is "" and `revision` 0 where none was ever published. */
export async function active(signal) {
  try {
    const { text, data, revision } = await ask("config", { signal, timeoutMs: LONG_MS });
    return { text, table: data, revision };
  } catch (error) {
    if (error instanceof ApiError && error.kind === "missing" && error.revision === 0)
      return { text: "", table: null, revision: 0 };
    throw error;
  }
}

/**
 * What a write of a text would meet: `{ errors, warnings, protectedRoutes, revision, diff }`; `revision` is the active
 * one that `diff` starts from, and `diff` is null where the text is no table. Nothing is written.
 */
export async function check(text, signal) {
  const { data } = await ask("config/validate", { method: "POST", body: text, signal, timeoutMs: LONG_MS });
  return { ...data, diff: data.diff ?? null };
}

/** Publishes a text if `base` is still active; the new revision's number. */
export async function publish(text, base) {
  const { revision, data } = await ask("config", { method: "PUT", body: text, ifMatch: base, timeoutMs: LONG_MS });
  return revision ?? data.revision;
}

/** Publishes the table of an earlier revision again if `base` is still active; the new revision's number. */
export async function rollBack(earlier, base) {
  const body = JSON.stringify({ revision: earlier });
  const { revision, data } = await ask("config/rollback", { method: "POST", body, ifMatch: base, timeoutMs: LONG_MS });
  return revision ?? data.revision;
}

/** What differs between two revisions. */
export async function difference(from, to, signal) {
  return (await ask("config/diff", { query: { from, to }, signal, timeoutMs: LONG_MS })).data;
}

/** A page of revisions, the newest first. */
export async function revisions(cursor, signal, limit = 50) {
  return (await ask("config/revisions", { query: { limit, cursor }, signal })).data;
}
