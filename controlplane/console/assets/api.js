// The control plane's API, as this page asks it. The token lives in this module's memory and nowhere else.

const BASE = new URL("../v1/", import.meta.url);
const TIMEOUT_MS = 15_000;
const RETRIES = 2;
const LONGEST_RETRY_S = 5;

let token = "";
let onRefused = () => {};

const KINDS = {
  400: "refused",
  401: "unauthorized",
  403: "forbidden",
  404: "missing",
  409: "conflict",
  412: "conflict",
  413: "refused",
  415: "refused",
  428: "refused",
  429: "throttled",
  503: "unavailable",
};

/** Why there is no result. `kind` is one of KINDS, `unreachable`, `late` or `failed`; the rest is the API's answer. */
export class ApiError extends Error {
  constructor(kind, message, answer = {}) {
    super(message);
    Object.assign(this, { kind, status: 0, code: "", errors: [], retryAfterS: 0, requestId: "", body: {}, ...answer });
  }
}

/** Whether a token is held. */
export const signedIn = () => token !== "";

/** Drops the token. What was asked with it before may still answer; nothing is asked after. */
export function forget() {
  token = "";
}

/** Holds a token for this page. */
export function hold(given) {
  token = given;
}

/** Called with the error when a request was refused for its token. */
export function whenRefused(listener) {
  onRefused = listener;
}

/** Rejects with the signal's reason when that is aborted first. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/**
 * One request below `/v1/`: `{ data, text, revision, operator, scope }`. `body` is a text that is JSON already. Raises
 * ApiError, or the signal's reason when the view was left. What only reads is asked again while the state is away;
 * what writes never is.
 */
export async function ask(path, options = {}) {
  const reading = (options.method ?? "GET") === "GET";
  for (let left = reading ? RETRIES : 0; ; left -= 1) {
    try {
      return await once(path, options);
    } catch (error) {
      if (left === 0 || !(error instanceof ApiError) || error.kind !== "unavailable") throw error;
      await pause(Math.min(error.retryAfterS || 1, LONGEST_RETRY_S) * 1_000, options.signal);
    }
  }
}

async function once(path, { method = "GET", query = {}, body, ifMatch, signal, timeoutMs = TIMEOUT_MS }) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query))
    if (value !== "" && value != null) url.searchParams.set(name, value);
  const used = token;
  const headers = { accept: "application/json", authorization: `Bearer ${used}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (ifMatch !== undefined) headers["if-match"] = `"${ifMatch}"`;
  const late = AbortSignal.timeout(timeoutMs);
  const either = signal ? AbortSignal.any([signal, late]) : late;
  const settings = {
    method,
    headers,
    body,
    signal: either,
    mode: "same-origin",
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
    referrerPolicy: "no-referrer",
  };
  let response;
  let text;
  try {
    response = await fetch(url, settings);
    text = await response.text();
  } catch {
    signal?.throwIfAborted();
    if (late.aborted) throw new ApiError("late", `No answer within ${timeoutMs / 1_000} seconds.`);
    throw new ApiError(
      "unreachable",
      "The control plane cannot be reached. Is it running, and is this machine online?",
    );
  }
  signal?.throwIfAborted();
  return read(response, text, used);
}

function read(response, text, used) {
  let data = null;
  try {
    data = text === "" ? null : JSON.parse(text);
  } catch {
    if (response.ok)
      throw new ApiError("failed", "The control plane's answer is no JSON.", { status: response.status });
  }
  const revision = /^"(\d{1,15})"$/.exec(response.headers.get("etag") ?? "");
  const found = { data, text, status: response.status, revision: revision ? Number(revision[1]) : null };
  if (response.ok) return found;
  const error = failure(response, found);
  // An answer to a token that was dropped meanwhile says nothing about the one that is held now.
  if (error.kind === "unauthorized" && used === token) onRefused(error);
  throw error;
}

function failure(response, { data, revision }) {
  const body = data !== null && typeof data === "object" ? data : {};
  return new ApiError(KINDS[response.status] ?? "failed", String(body.message ?? `HTTP ${response.status}`), {
    status: response.status,
    code: String(body.error ?? ""),
    errors: Array.isArray(body.errors) ? body.errors : [],
    retryAfterS: Math.min(Number(response.headers.get("retry-after")) || 0, 3_600),
    requestId: response.headers.get("x-request-id") ?? "",
    revision,
    body,
  });
}
