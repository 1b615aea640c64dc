// What several views are made of: states, fields, choices.

import { pause } from "./api.js";
import { fill, focusOn, freshId, h } from "./dom.js";
import { mono, said, visible } from "./text.js";

/** A word with a colour; the word alone says it, too. */
export const badge = (kind, text) => h("span", { class: `badge ${kind}` }, text);

/** What is shown while something is fetched. */
export const loading = (text) =>
  h("p", { class: "state", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);

/** What is shown where there is nothing. */
export const empty = (title, ...hint) =>
  h("div", { class: "state empty" }, h("p", {}, title), h("p", { class: "quiet" }, hint));

const TITLES = {
  forbidden: "This token may not do that",
  missing: "There is no such thing",
  conflict: "Something else changed it first",
  throttled: "Too many failed sign-ins from this address",
  unavailable: "The shared state is away",
  unreachable: "No connection",
  late: "No answer in time",
  refused: "The control plane refused it",
  protected_route: "A protected route may not change",
  revision_conflict: "Somebody else published first",
};

const HINTS = {
  forbidden:
    "Each token has one scope: read looks, operate revokes, config writes. Sign in with a token of the right one.",
  unavailable: "Nothing was changed. Gateways go on with what they have; look at the store of the shared state.",
  throttled: "The control plane refuses every token from here until the time is over.",
  protected_route: "GATEWAY_PROTECTED_ROUTES of the control plane names it. Nothing was published.",
  revision_conflict: "Nothing was published. Close this, look at what is active now, and decide anew.",
};

const told = (texts, { code, kind }) => texts[code] ?? texts[kind];

/** Why there is no result, and a way to try again where `retry` is given. */
export function failure(error, retry = null) {
  const detail = [error.code, error.requestId && `request ${error.requestId}`].filter(Boolean).join(" · ");
  return h(
    "div",
    { class: "state error", role: "alert" },
    h("p", {}, h("strong", {}, told(TITLES, error) ?? "It did not work")),
    h("p", {}, said(error.message)),
    told(HINTS, error) && h("p", { class: "quiet" }, told(HINTS, error)),
    error.errors?.length > 0 &&
      h(
        "ul",
        {},
        error.errors.slice(0, 50).map((one) => h("li", {}, problem(one))),
      ),
    detail && h("p", { class: "quiet small" }, mono(detail)),
    retry && again(error, retry),
  );
}

/** One error of the API as a line. */
export const problem = ({ path, message }) => [path ? [mono(path), ": "] : "", said(message ?? "")];

function again(error, retry) {
  const button = h("button", { type: "button", onclick: retry }, "Try again");
  if (error.retryAfterS > 0) waitWith(button, error.retryAfterS);
  return h("p", {}, button);
}

/** Keeps a button off until the time is over, and counts down on it. */
export async function waitWith(button, seconds) {
  const label = button.textContent;
  button.disabled = true;
  for (let left = Math.ceil(seconds); left > 0; left -= 1) {
    button.textContent = `${label} in ${left} s`;
    await pause(1_000);
  }
  button.textContent = label;
  button.disabled = false;
}

/**
 * Fetches and shows: loading, then what `show(result)` returns, or the failure with a way to try again. The signal's
 * abort ends it silently.
 */
export async function load(place, text, signal, fetchIt, show) {
  fill(place, loading(text));
  try {
    const result = await fetchIt();
    signal.throwIfAborted();
    fill(place, show(result));
  } catch (error) {
    if (signal.aborted) return;
    if (error.kind === undefined) console.error(error);
    const hadFocus = () => load(place, text, signal, fetchIt, show).then(() => focusOn(place));
    fill(place, failure(error, error.kind === "forbidden" ? null : hadFocus));
  }
}

/** Options of one choice among few, as a group of radio buttons that looks like one control. */
export function choice(legend, options, chosen, onchange) {
  const name = freshId("choice");
  const made = Object.entries(options).map(([value, label]) => {
    const input = h("input", {
      type: "radio",
      name,
      value,
      checked: value === chosen,
      onchange: () => onchange(value),
    });
    return h("label", {}, input, h("span", {}, label));
  });
  return h("fieldset", { class: "choice" }, h("legend", { class: "unseen" }, legend), made);
}

/** A labelled field; `control` gets the label's id. */
export function field(label, control, hint = null) {
  control.id ||= freshId("field");
  const about = hint && h("span", { class: "quiet small", id: freshId("hint") }, hint);
  if (about) control.setAttribute("aria-describedby", about.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, about);
}

/** A title's text, for the page's head. */
export const headText = (text) => `${visible(text)} · Wicketgate console`;
