// The gateways that are alive, and the revision that each one serves.

import { ask } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { table } from "./lists.js";
import { badge, empty, failure, loading } from "./parts.js";
import { polled } from "./polling.js";
import { ago, count, mono, plural, said, when } from "./text.js";

export const title = "Replicas";
export const needs = "replicas";

const EVERY_MS = 2_000;

export function show({ place, query, signal }) {
  const wanted = /^\d{1,15}$/.test(query.get("revision") ?? "") ? Number(query.get("revision")) : null;
  const summary = h("div", {}, loading("Asking for the replicas…"));
  const list = h("div", {});
  const state = h("p", { class: "quiet small" });
  const lead =
    wanted === null
      ? "What each gateway said last. Looked at every two seconds while this page is in view."
      : `Revision ${count(wanted)} is published. Gateways take it by themselves.`;
  fill(place, h("h1", {}, "Replicas"), h("p", { class: "lead" }, lead), summary, list, state);
  let said_ = "";
  polled(EVERY_MS, signal, async () => {
    try {
      const { data } = await ask("replicas", { signal });
      signal.throwIfAborted();
      const [text, kind] = inShort(data, wanted);
      fill(summary, h("p", { class: `state ${kind}` }, text));
      if (text !== said_) announce(text);
      said_ = text;
      fill(
        list,
        data.items.length > 0
          ? listed(data)
          : empty(
              "No gateway has said anything yet.",
              "Gateways that follow the store (",
              h("code", {}, "GATEWAY_CONFIG_SOURCE=store"),
              ") are listed here.",
            ),
      );
      fill(state, "As of ", when(new Date().toISOString()));
    } catch (error) {
      if (signal.aborted || error.kind === undefined) throw error;
      if (said_ === "") fill(summary, failure(error));
      else
        fill(
          state,
          badge("bad", "stale"),
          " ",
          said(error.message),
          " What stands here is older; the page goes on asking.",
        );
    }
  });
}

/** What it comes to: a sentence, and how good that is. */
function inShort({ items, revision }, wanted) {
  const goal = Math.max(wanted ?? 0, revision);
  if (items.length === 0) return ["No gateway is known.", "neutral"];
  const failing = items.filter((one) => one.lastError).length;
  const errors = failing > 0 ? ` ${plural(failing, "replica reports", "replicas report")} an error.` : "";
  if (goal === 0)
    return [
      `No table was published: ${plural(items.length, "replica serves its", "replicas serve their")} file.${errors}`,
      "neutral",
    ];
  const there = items.filter((one) => one.revision >= goal).length;
  const all = items.length === 1 ? "The one replica serves" : `All ${count(items.length)} replicas serve`;
  const who = there === items.length ? all : `${count(there)} of ${plural(items.length, "replica")} serve`;
  return [`${who} revision ${count(goal)}.${errors}`, there === items.length && failing === 0 ? "good" : "warn"];
}

function listed({ items }) {
  const made = table({
    caption: "Gateways, the revision that each serves, and its last error",
    columns: [
      { title: "Replica", head: true, cell: ({ replica }) => mono(replica, { shown: 120 }) },
      { title: "Serves", cell: (one) => (one.revision === 0 ? "its file" : `revision ${count(one.revision)}`) },
      {
        title: "Behind",
        cell: ({ behind }) => (behind === 0 ? badge("good", "up to date") : badge("warn", plural(behind, "revision"))),
      },
      {
        title: "Last error",
        cell: ({ lastError }) => (lastError ? said(lastError) : h("span", { class: "quiet" }, "none")),
      },
      {
        title: "Heard of",
        cell: ({ time, ageMs }) => [when(time), h("span", { class: "quiet small" }, ` ${ago(ageMs)}`)],
      },
    ],
  });
  made.add(items);
  return made.element;
}
