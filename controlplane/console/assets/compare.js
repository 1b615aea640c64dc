// The difference between any two revisions.

import { difference } from "./config.js";
import { diffView } from "./diffview.js";
import { fill, h } from "./dom.js";
import { field, load } from "./parts.js";
import { count } from "./text.js";

export const title = "Compare";
export const needs = "config";

const NUMBER = /^[1-9]\d{0,14}$/;

export function show({ place, rest: [from = "", to = ""], signal }) {
  const result = h("div", {});
  fill(
    place,
    h("h1", {}, "Compare revisions"),
    h("p", { class: "lead" }, h("a", { href: "#/history" }, "All revisions")),
    compareForm(from, to),
    result,
  );
  if (!NUMBER.test(from) || !NUMBER.test(to)) return;
  load(
    result,
    "Comparing…",
    signal,
    () => difference(from, to, signal),
    (diff) =>
      h(
        "section",
        { class: "card", "aria-label": "Difference" },
        h("h2", {}, "What differs"),
        diffView(diff, { before: `revision ${count(from)}`, after: `revision ${count(to)}` }),
      ),
  );
}

/** A form that leads to the comparison of two revisions. */
export function compareForm(from = "", to = "") {
  const input = (value) =>
    h("input", { type: "text", inputmode: "numeric", pattern: "[1-9][0-9]{0,14}", required: true, size: 6, value });
  const [before, after] = [input(from), input(to)];
  const submit = (event) => {
    event.preventDefault();
    location.hash = `#/compare/${before.value}/${after.value}`;
  };
  return h(
    "form",
    { class: "tools", onsubmit: submit },
    field("From revision", before),
    field("To revision", after),
    h("button", { type: "submit" }, "Compare"),
  );
}
