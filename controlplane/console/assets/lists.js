// Tables, and lists that grow.

import { announce, fill, focusOn, h, put } from "./dom.js";
import { failure, load, loading } from "./parts.js";
import { count } from "./text.js";

const CHUNK = 100;

// Pages looked through for something to show before the person is asked.
const PAGES = 10;

/**
 * A table that stacks on a narrow screen; `columns` are `{ title, cell(row), head }`. It is `{ element, add(rows),
 * body }`. Roles are said in so many words: a stacked table loses those that its elements have by nature.
 */
export function table({ caption, columns, captionShown = false }) {
  const body = h("tbody", { role: "rowgroup" });
  const titles = columns.map(({ title }) => h("th", { scope: "col", role: "columnheader" }, title));
  const element = h(
    "table",
    { role: "table", class: "stacks" },
    h("caption", captionShown ? {} : { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, titles)),
    body,
  );
  const add = (rows) => {
    const made = rows.map((row) =>
      h(
        "tr",
        { role: "row" },
        columns.map(({ title, cell, head }) => {
          const place = head ? { scope: "row", role: "rowheader" } : { role: "cell" };
          return h(head ? "th" : "td", { ...place, "data-label": title }, cell(row));
        }),
      ),
    );
    put(body, made);
    return made;
  };
  return { element, add, body };
}

/** All of `items`, shown a hundred at a time in the same table. */
export function chunked(items, made, noun) {
  let shown = 0;
  const place = h("p", { class: "more" });
  const show = () => {
    const rows = made.add(items.slice(shown, shown + CHUNK));
    shown += rows.length;
    const left = items.length - shown;
    const next = Math.min(left, CHUNK);
    const button = h("button", { type: "button", onclick: more }, `Show ${count(next)} more`);
    fill(place, left > 0 && [button, ` ${count(shown)} of ${count(items.length)} ${noun}`]);
    return rows;
  };
  const more = () => {
    focusOn(show()[0]);
    announce(`${count(shown)} of ${count(items.length)} ${noun} shown`);
  };
  show();
  return h("div", {}, made.element, place);
}

/**
 * A list of the API, page after page: `fetchPage(cursor)` answers `{ items, nextCursor }`. A page may be empty although
 * others follow, as where a filter finds little.
 */
export async function paged(place, { text, signal, fetchPage, made, none, noun }) {
  let shown = 0;
  const rest = h("div", { class: "more" });
  const show = ({ items, nextCursor }) => {
    const rows = made.add(items);
    shown += rows.length;
    const button = h(
      "button",
      { type: "button", onclick: () => next(nextCursor) },
      shown > 0 ? "Load more" : "Look further back",
    );
    fill(
      rest,
      nextCursor && button,
      ` ${count(shown)} ${noun} ${nextCursor && shown === 0 ? "so far" : "shown"}`,
      nextCursor ? "" : ", that is all",
    );
    return rows;
  };
  const next = async (cursor) => {
    fill(rest, loading("Loading more…"));
    try {
      const found = await some(fetchPage, cursor, signal);
      focusOn(show(found)[0] ?? rest);
      announce(`${count(shown)} ${noun} shown`);
    } catch (error) {
      if (!signal.aborted)
        fill(
          rest,
          failure(error, () => next(cursor)),
        );
    }
  };
  await load(
    place,
    text,
    signal,
    () => some(fetchPage, null, signal),
    (first) => {
      if (first.items.length === 0 && first.nextCursor === null) return none;
      show(first);
      return [made.element, rest];
    },
  );
}

// The next page that holds something, or the last one that was looked at.
async function some(fetchPage, cursor, signal) {
  let found = { items: [], nextCursor: cursor };
  for (let pages = 0; pages < PAGES; pages += 1) {
    found = await fetchPage(found.nextCursor);
    signal.throwIfAborted();
    if (found.items.length > 0 || found.nextCursor === null) break;
  }
  return found;
}
