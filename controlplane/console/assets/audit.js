// Who did what, the newest first.

import { ask } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { paged, table } from "./lists.js";
import { badge, empty, field } from "./parts.js";
import { mono, said, when } from "./text.js";

export const title = "Audit";
export const needs = "audit";

const ACTIONS = ["config.write", "config.rollback", "sessions.revoke", "decisions.drop"];

export function show({ place, query, keep, signal }) {
  const list = h("div", {});
  const action = h(
    "select",
    {},
    h("option", { value: "" }, "Any"),
    ACTIONS.map((one) => h("option", { value: one, selected: query.get("action") === one }, one)),
  );
  const operator = h("input", {
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    value: query.get("operator") ?? "",
  });
  const from = h("input", { type: "datetime-local", step: "1", value: local(query.get("from")) });
  const to = h("input", { type: "datetime-local", step: "1", value: local(query.get("to")) });
  const search = () => {
    const filter = { action: action.value, operator: operator.value, from: utc(from.value), to: utc(to.value) };
    keep(filter);
    return entries(list, filter, signal);
  };
  const submit = (event) => {
    event.preventDefault();
    search().then(() => announce(list.querySelector("tbody") ? "Entries listed" : "No entry matches"));
  };
  const clear = () => {
    action.value = operator.value = from.value = to.value = "";
    search().then(() => announce("Filters cleared"));
  };
  fill(
    place,
    h("h1", {}, "Audit trail"),
    h(
      "p",
      { class: "lead" },
      "Every change that was made through the control plane, written together with the change itself.",
    ),
    h(
      "form",
      { class: "tools", role: "search", onsubmit: submit },
      field("Action", action),
      field("Operator", operator),
      field("From", from),
      field("Before", to),
      h("button", { type: "submit" }, "Filter"),
      h("button", { type: "button", onclick: clear }, "Clear"),
    ),
    list,
  );
  search();
}

function entries(list, filter, signal) {
  const made = table({
    caption: "Audit entries, the newest first",
    columns: [
      { title: "When", head: true, cell: ({ time }) => when(time) },
      { title: "Action", cell: (one) => badge("neutral", said(one.action, { shown: 60 })) },
      { title: "Target", cell: (one) => mono(one.target) },
      {
        title: "Operator",
        cell: (one) => [said(one.operator), " ", h("span", { class: "quiet small" }, said(one.scope, { shown: 20 }))],
      },
      { title: "From", cell: (one) => mono(one.client) },
      { title: "Request", cell: (one) => mono(one.requestId, { shown: 64 }) },
    ],
  });
  return paged(list, {
    text: "Reading the trail…",
    signal,
    made,
    noun: "entries",
    none: empty("No entry.", "Nothing was changed, or nothing that matches the filters."),
    fetchPage: async (cursor) => (await ask("audit", { query: { ...filter, cursor, limit: 50 }, signal })).data,
  });
}

/** What a field for local time holds, as UTC for the API; "" when empty. */
function utc(value) {
  const time = new Date(value);
  return value === "" || Number.isNaN(time.getTime()) ? "" : time.toISOString();
}

/** A UTC time as a field for local time takes it. */
function local(text) {
  const time = new Date(text ?? NaN);
  if (Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
