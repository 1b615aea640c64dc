// What differs between two tables: by route and field, or as a text.

import { fill, focusOn, h } from "./dom.js";
import { table } from "./lists.js";
import { choice } from "./parts.js";
import { count, mono, plural, visible, visibleLine } from "./text.js";

const CHUNK = 50;
const LINES = 1_000;

/** Whether there is any difference. */
export const differs = (diff) =>
  diff.added.length + diff.removed.length + diff.changed.length + diff.settings.length > 0;

/** The ids of routes that differ in any way. */
export const touched = (diff) => [...diff.added, ...diff.removed, ...diff.changed.map(({ id }) => id)];

/** The difference in one line. */
export function inShort(diff) {
  const parts = [
    diff.added.length > 0 && `${plural(diff.added.length, "route")} added`,
    diff.removed.length > 0 && `${plural(diff.removed.length, "route")} removed`,
    diff.changed.length > 0 && `${plural(diff.changed.length, "route")} changed`,
    diff.settings.length > 0 && `${plural(diff.settings.length, "setting")} outside the routes changed`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : "No difference in meaning";
}

/** The whole difference; `before` and `after` name its sides. */
export function diffView(diff, { before, after }) {
  const shown = h("div", {});
  const views = { routes: () => byRoute(diff, before, after), text: () => asText(diff, before, after) };
  const show = (which) => fill(shown, views[which]());
  show("routes");
  const sides = h(
    "p",
    { class: "sides" },
    h("span", { class: "side del" }, `− ${before}`),
    h("span", { class: "side add" }, `+ ${after}`),
  );
  return h(
    "div",
    { class: "diff" },
    h("p", {}, h("strong", {}, `${inShort(diff)}.`)),
    differs(diff) && [
      h(
        "div",
        { class: "tools" },
        choice("Show the difference", { routes: "By route", text: "As text" }, "routes", show),
        sides,
      ),
      shown,
    ],
  );
}

function byRoute(diff, before, after) {
  return [
    listOf("Added routes", "add", "+", diff.added),
    listOf("Removed routes", "del", "−", diff.removed),
    diff.settings.length > 0 &&
      h(
        "section",
        {},
        h("h3", {}, "Outside the routes"),
        fields("Settings outside the routes", diff.settings, before, after),
      ),
    some(diff.changed, ({ id, fields: changed }) =>
      h(
        "section",
        {},
        h("h3", {}, "Route ", mono(id)),
        fields(`Changed fields of route ${visible(id)}`, changed, before, after),
      ),
    ),
  ];
}

function listOf(title, kind, sign, ids) {
  if (ids.length === 0) return null;
  return h(
    "section",
    {},
    h("h3", {}, title),
    h(
      "ul",
      { class: "ids" },
      ids.map((id) => h("li", { class: kind }, `${sign} `, mono(id))),
    ),
  );
}

function fields(caption, changed, before, after) {
  const made = table({
    caption,
    columns: [
      { title: "Field", head: true, cell: ({ path }) => mono(path) },
      { title: before, cell: (one) => value("del", one.before) },
      { title: after, cell: (one) => value("ins", one.after) },
    ],
  });
  made.add(changed);
  return made.element;
}

const value = (tag, given) =>
  given === null || given === undefined
    ? h("span", { class: "quiet" }, "not set")
    : h(tag, {}, mono(typeof given === "string" ? given : JSON.stringify(given)));

function asText(diff, before, after) {
  const lines = diff.unified.replace(/\n$/, "").split("\n");
  const code = h("pre", {
    class: "code unified",
    tabindex: "0",
    role: "region",
    "aria-label": `Difference from ${before} to ${after} as text`,
  });
  const add = (from, to) => code.append(...lines.slice(from, to).map(line));
  add(0, LINES);
  if (lines.length <= LINES) return code;
  const rest = h(
    "button",
    {
      type: "button",
      onclick: () => {
        add(LINES);
        rest.remove();
        focusOn(code);
      },
    },
    `Show all ${count(lines.length)} lines`,
  );
  return [code, h("p", { class: "more" }, rest)];
}

function line(text) {
  const head = text.startsWith("+++") || text.startsWith("---") || text.startsWith("@@");
  const kind = head ? "hunk" : text.startsWith("+") ? "add" : text.startsWith("-") ? "del" : null;
  return h("span", { class: kind }, visibleLine(text), "\n");
}

/** Some of the items, and a button that shows the next ones. */
function some(items, make) {
  const place = h("div", {});
  const more = h("p", { class: "more" });
  let shown = 0;
  const show = () => {
    const made = items.slice(shown, shown + CHUNK).map(make);
    place.append(...made);
    shown += made.length;
    const left = items.length - shown;
    fill(
      more,
      left > 0 &&
        h("button", { type: "button", onclick: () => focusOn(show()[0]) }, `Show ${count(Math.min(left, CHUNK))} more`),
      left > 0 && ` ${count(shown)} of ${count(items.length)} changed routes`,
    );
    return made;
  };
  show();
  return h("div", {}, place, more);
}
