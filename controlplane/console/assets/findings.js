// What a check of the draft found, each with a way to its place in the text.

import { h } from "./dom.js";
import { draft } from "./draft.js";
import { locate, placeOf } from "./json_text.js";
import { mono, plural, said } from "./text.js";

const SHOWN = 200;

/** Protected routes that the text would change. */
export const protectedNote = (ids) =>
  h(
    "section",
    { class: "state error" },
    h("h2", {}, "Protected routes may not change"),
    h(
      "p",
      {},
      "This text removes or changes ",
      ids.map((id, index) => [index > 0 && ", ", mono(id)]),
      ". ",
      h("code", {}, "GATEWAY_PROTECTED_ROUTES"),
      " of the control plane names them, so publishing is refused.",
    ),
  );

/** Errors, each leading to its place. `jump(place)` shows a place of the draft's text. */
export function errorList(errors, jump) {
  const link = (one) =>
    h(
      "button",
      { type: "button", class: "link", onclick: () => jump(placeOf(draft.text, one)) },
      one.path ? mono(one.path) : "the text",
    );
  return h(
    "section",
    { class: "state error" },
    h("h2", {}, plural(errors.length, "error")),
    h(
      "ul",
      { class: "warnings" },
      errors.slice(0, SHOWN).map((one) => h("li", {}, link(one), " ", said(one.message))),
    ),
    errors.length > SHOWN && h("p", {}, `Only the first ${SHOWN} are listed; correct these and check again.`),
  );
}

/** Warnings, each leading to its field. */
export function warningsFound(warnings, jump) {
  const show = (one) => () => jump(locate(draft.text, pathOf(one)));
  return h(
    "section",
    { class: "state warn" },
    h("h2", {}, plural(warnings.length, "warning")),
    h("p", { class: "quiet" }, "Each of these opens something up. They are legal; somebody should have meant them."),
    h(
      "ul",
      { class: "warnings" },
      warnings
        .slice(0, SHOWN)
        .map((one) =>
          h(
            "li",
            {},
            h("button", { type: "button", class: "link", onclick: show(one) }, mono(one.route || "the table")),
            " ",
            mono(one.setting),
            " ",
            said(one.message),
          ),
        ),
    ),
    warnings.length > SHOWN && h("p", {}, `Only the first ${SHOWN} are listed.`),
  );
}

/** Where a warning's field is: a route is named by its id, a place in the text by its number. */
function pathOf({ route, setting }) {
  if (!route) return setting;
  try {
    const index = JSON.parse(draft.text).routes.findIndex(({ id }) => id === route);
    return `routes[${index}].${setting}`;
  } catch {
    return "";
  }
}
