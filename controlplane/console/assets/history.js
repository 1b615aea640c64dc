// Every revision there was, the newest first: the newest is the active one.

import { ask } from "./api.js";
import { compareForm } from "./compare.js";
import { difference, revisions, rollBack } from "./config.js";
import { confirmed } from "./dialog.js";
import { diffView } from "./diffview.js";
import { announce, fill, h } from "./dom.js";
import { paged, table } from "./lists.js";
import { badge, empty, load } from "./parts.js";
import { lacking } from "./session.js";
import { count, said, visibleLine, when } from "./text.js";

export const title = "History";
export const needs = "config";

const ACTIONS = { "config.write": "Published", "config.rollback": "Rolled back" };

export function show({ place, rest: [number], signal }) {
  if (number !== undefined) return one(place, number, signal);
  const list = h("div", {});
  fill(
    place,
    h("h1", {}, "History"),
    h("p", { class: "lead" }, "Revisions are never rewritten. A rollback is a new revision with an old table."),
    compareForm(),
    list,
  );
  let newest = null;
  const made = table({
    caption: "Revisions of the route table, the newest first",
    columns: [
      {
        title: "Revision",
        head: true,
        cell: ({ revision }) => [
          h("a", { href: `#/history/${revision}` }, count(revision)),
          revision === newest && [" ", badge("good", "active")],
        ],
      },
      { title: "Written", cell: ({ time }) => when(time) },
      { title: "By", cell: ({ operator }) => said(operator) },
      { title: "How", cell: ({ action }) => ACTIONS[action] ?? said(action) },
      { title: "Actions", cell: ({ revision }) => actions(revision, newest) },
    ],
  });
  const fetchPage = async (cursor) => {
    const found = await revisions(cursor, signal);
    newest ??= found.items[0]?.revision ?? 0;
    return found;
  };
  const none = empty("No table was ever published.", h("a", { href: "#/edit" }, "Write the first one"));
  return paged(list, { text: "Reading the revisions…", signal, fetchPage, made, none, noun: "revisions" });
}

function actions(revision, newest) {
  const earlier = revision > 1 && h("a", { href: `#/compare/${revision - 1}/${revision}` }, "What it changed");
  if (revision === newest) return h("div", { class: "actions" }, earlier);
  return h(
    "div",
    { class: "actions" },
    earlier,
    h("a", { href: `#/compare/${revision}/${newest}` }, "Compare with active"),
    rollBackButton(revision, newest),
  );
}

function rollBackButton(revision, newest) {
  const why = lacking("config");
  const label = h("span", { class: "unseen" }, ` to revision ${revision}`);
  return h(
    "button",
    { type: "button", disabled: why !== "", title: why, onclick: () => rollBackAsked(revision, newest) },
    "Roll back",
    label,
    why && h("span", { class: "unseen" }, `. ${why}`),
  );
}

/** Shows what a rollback changes, and does it when that is confirmed. */
async function rollBackAsked(revision, active) {
  const shown = h("div", {});
  const stop = new AbortController();
  let stale = false;
  const sides = { before: `revision ${count(active)}, active`, after: `revision ${count(revision)} again` };
  load(
    shown,
    "Comparing…",
    stop.signal,
    () => difference(active, revision, stop.signal),
    (diff) => diffView(diff, sides),
  );
  const written = await confirmed({
    title: `Roll back to revision ${count(revision)}?`,
    body: [
      h(
        "p",
        {},
        `Its table is published again, as a new revision. Every gateway takes it within seconds. This is what changes:`,
      ),
      shown,
    ],
    action: `Roll back to ${count(revision)}`,
    danger: true,
    run: () =>
      rollBack(revision, active).catch((error) => {
        stale = error.code === "revision_conflict";
        throw error;
      }),
  });
  stop.abort();
  if (stale) dispatchEvent(new HashChangeEvent("hashchange"));
  if (written === null) return;
  location.hash = `#/replicas?revision=${written}`;
  announce(`Rolled back: revision ${written} is active.`);
}

function one(place, number, signal) {
  const content = h("div", {});
  fill(
    place,
    h("h1", {}, "Revision ", said(number, { shown: 20 })),
    h("p", { class: "lead" }, h("a", { href: "#/history" }, "All revisions")),
    content,
  );
  load(
    content,
    "Reading the revision…",
    signal,
    () => ask(`config/revisions/${encodeURIComponent(number)}`, { signal }),
    ({ data }) => [
      h("p", {}, ACTIONS[data.action] ?? said(data.action), " by ", said(data.operator), ", ", when(data.time)),
      h(
        "pre",
        { class: "code", tabindex: "0", role: "region", "aria-label": "The table as JSON" },
        JSON.stringify(data.table, null, 2).split("\n").map(visibleLine).join("\n"),
      ),
    ],
  );
}
