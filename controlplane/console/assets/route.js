// One route of the active table: all of its policy, and where each value comes from.

import { h } from "./dom.js";
import { badge, empty } from "./parts.js";
import { MODES, callers, listOf, policy, routesOf, withoutPassword } from "./policy.js";
import { budget, warningList, warningsOf } from "./policyparts.js";
import { bytes, count, duration, mono, said, visibleLine } from "./text.js";

const SOURCES = { route: null, defaults: "from defaults", deployment: "the deployment’s" };

/** Everything about the route of this id. */
export function detail(read, id) {
  const index = routesOf(read.table).findIndex((route) => route.id === id);
  if (index === -1)
    return empty("The active table has no route of this id.", h("a", { href: "#/routes" }, "All routes"));
  const route = routesOf(read.table)[index];
  const warnings = warningsOf(read, id);
  const edit = h(
    "a",
    { class: "button", href: `#/edit?at=${encodeURIComponent(`routes[${index}]`)}` },
    "Edit this route",
  );
  return [
    h(
      "p",
      { class: "lead" },
      h("a", { href: "#/routes" }, "All routes"),
      ` · revision ${count(read.revision)}, place ${index + 1}`,
    ),
    warnings.length > 0 && h("section", { class: "state warn", "aria-label": "Warnings" }, warningList(warnings)),
    h("div", { class: "cards" }, groups(read.table, route)),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "As it stands in the table"),
      source(route),
      h("p", { class: "buttons" }, edit),
    ),
  ];
}

function groups(table, route) {
  const of = policy(table, route);
  const row = (label, path, write) => [
    label,
    of(path).value === undefined ? null : write(of(path).value),
    SOURCES[of(path).from],
  ];
  const ms = (label, path) => row(label, path, (value) => (value === 0 ? "off" : duration(value)));
  const yes = (label, path) => [
    label,
    of(path).value === true ? badge("open", "yes") : "no",
    of(path).value === undefined ? null : SOURCES[of(path).from],
  ];
  return [
    group("Requests", requests(route)),
    group("Callers", [
      ...admitted(table, route, of),
      row("Cross-site", "crossSite", said),
      yes("Credential handed on", "forwardAuthorization"),
      yes("WebSockets", "websocket"),
    ]),
    group("Upstreams", [
      [
        "Tried in this order",
        h(
          "ol",
          { class: "bare" },
          listOf(route.upstream).map((url) => h("li", {}, mono(withoutPassword(url)))),
        ),
      ],
      ["Host it sees", hostSeen(route)],
      ["Path it sees", route.rewrite === undefined ? "as sent" : mono(route.rewrite)],
      ms("An attempt, with another behind", "upstreamAttemptMs"),
      row("Body kept for it", "replayMaxBytes", bytes),
    ]),
    group("Limits", [
      row("Request body", "maxBodyBytes", (value) => (value === 0 ? "unbounded" : bytes(value))),
      row("Requests by address", "rateLimits.client", (part) => budget("address", part)),
      row("Requests by caller", "rateLimits.principal", (part) => budget("caller", part)),
    ]),
    group("Access", [
      ms("A decision is kept", "accessCacheTtlMs"),
      ms("And serves during an outage", "accessStaleGraceMs"),
    ]),
    group("Time budgets", [
      ms("Connect", "timeouts.connectMs"),
      ms("Upload, idle", "timeouts.uploadMs"),
      ms("Response head", "timeouts.responseMs"),
      ms("First byte", "timeouts.firstByteMs"),
      ms("Body, idle", "timeouts.bodyMs"),
    ]),
  ];
}

function requests(route) {
  const match = route.match ?? {};
  const methods = listOf(match.methods);
  return [
    ["Host", match.host && match.host !== "*" ? mono(match.host) : "any"],
    ["Path", mono(match.path)],
    ["Methods", methods.length > 0 ? methods.map((method) => [badge("method", said(method)), " "]) : "all"],
  ];
}

function admitted(table, route, of) {
  const { mode, workspace, access } = callers(table, route);
  const from = (path) => SOURCES[of(path).from];
  const rows = [
    ["Who", [badge(mode === "none" ? "open" : "closed", MODES[mode] ?? ""), " ", mono(mode)], from("auth.mode")],
    ["Access is asked", access ? "yes" : "no"],
  ];
  if (workspace === undefined) return rows;
  const uuid = of("auth.workspace.requireUuid").value !== false;
  return [
    ...rows,
    ["Workspace", [mono(`{${workspace}}`), uuid ? ", a UUID" : ", any text"], from("auth.workspace.param")],
  ];
}

function hostSeen({ upstreamHost = "upstream" }) {
  if (upstreamHost === "upstream") return "the upstream’s own";
  return upstreamHost === "request" ? "the request’s" : mono(upstreamHost);
}

const group = (title, rows) =>
  h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    h(
      "dl",
      { class: "facts" },
      rows.map(([label, value, from]) =>
        h(
          "div",
          {},
          h("dt", {}, label),
          h("dd", {}, value ?? "", from && h("span", { class: "quiet small from" }, from)),
        ),
      ),
    ),
  );

function source(route) {
  const shown = {
    ...route,
    upstream: Array.isArray(route.upstream) ? route.upstream.map(withoutPassword) : withoutPassword(route.upstream),
  };
  const lines = JSON.stringify(shown, null, 2).split("\n").map(visibleLine);
  return h(
    "pre",
    { class: "code", tabindex: "0", role: "region", "aria-label": "The route as JSON" },
    lines.join("\n"),
  );
}
