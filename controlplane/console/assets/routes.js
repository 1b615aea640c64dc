// The active table, route by route.

import { active, check } from "./config.js";
import { announce, fill, h } from "./dom.js";
import { chunked, table as tableOf } from "./lists.js";
import { badge, empty, field, load, problem } from "./parts.js";
import { MODES, callers, listOf, policy, routesOf, searchable, withoutPassword } from "./policy.js";
import { budget, byRoute, warningList, warningsOf } from "./policyparts.js";
import { detail } from "./route.js";
import { bytes, count, mono, plural, said } from "./text.js";

export const title = "Routes";
export const needs = "config";

export function show({ place, rest, query, keep, signal }) {
  const content = h("div", {});
  const heading = h("h1", {}, rest[0] ? said(rest[0], { shown: 64 }) : "Routes");
  fill(place, heading, content);
  load(
    content,
    "Reading the active table…",
    signal,
    () => readAll(signal),
    (read) => {
      if (read.revision === 0) return nothing();
      return rest[0] ? detail(read, rest[0]) : overview(read, query, keep);
    },
  );
}

// The active table was valid when it was published; under this deployment's settings it may have warnings, or errors.
async function readAll(signal) {
  const read = await active(signal);
  if (read.revision === 0) return read;
  const { errors, warnings } = await check(read.text, signal);
  return { ...read, errors, warnings, byRoute: byRoute(warnings) };
}

const nothing = () =>
  empty(
    "No table was ever published.",
    "Gateways serve the file of ",
    h("code", {}, "GATEWAY_CONFIG"),
    " until one is. ",
    h("a", { href: "#/edit" }, "Write the first one"),
  );

function overview(read, query, keep) {
  const routes = routesOf(read.table);
  const list = h("div", {});
  const search = h("input", { type: "search", value: query.get("q") ?? "", placeholder: "Id, host, path, upstream…" });
  const mode = h(
    "select",
    {},
    h("option", { value: "" }, "Any"),
    Object.entries(MODES).map(([value, label]) => h("option", { value, selected: query.get("mode") === value }, label)),
  );
  const warned = h("input", { type: "checkbox", checked: query.get("warned") === "1" });
  const filter = ({ said: saying = true } = {}) => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    keep({ q: search.value, mode: mode.value, warned: warned.checked ? "1" : "" });
    const found = routes.filter(
      (route) =>
        words.every((word) => searchable(route).includes(word)) &&
        (mode.value === "" || callers(read.table, route).mode === mode.value) &&
        (!warned.checked || warningsOf(read, route.id).length > 0),
    );
    fill(
      list,
      found.length > 0 ? listed(read, found) : empty("No route matches.", "Change the search or the filters above."),
    );
    if (saying) announce(plural(found.length, "route"));
  };
  for (const control of [search, mode, warned]) control.addEventListener("input", filter);
  filter({ said: false });
  return [
    summary(read, routes),
    h(
      "form",
      { class: "tools", role: "search", onsubmit: (event) => event.preventDefault() },
      field("Search", search),
      field("Callers", mode),
      h("label", { class: "check" }, warned, " Only with warnings"),
    ),
    list,
  ];
}

function summary(read, routes) {
  const general = warningsOf(read, "");
  return [
    h(
      "p",
      { class: "lead" },
      "Revision ",
      h("strong", {}, count(read.revision)),
      ` is active: ${plural(routes.length, "route")}, ${plural(read.warnings.length, "warning")}. `,
      h("a", { href: "#/edit" }, "Edit"),
      " · ",
      h("a", { href: "#/history" }, "History"),
    ),
    read.errors.length > 0 &&
      h(
        "div",
        { class: "state error", role: "alert" },
        h("p", {}, h("strong", {}, "This table is not valid any more under the settings of this control plane:")),
        h(
          "ul",
          {},
          read.errors.slice(0, 20).map((one) => h("li", {}, problem(one))),
        ),
      ),
    general.length > 0 &&
      h("section", { class: "state warn", "aria-label": "Warnings for the whole table" }, warningList(general)),
  ];
}

function listed(read, routes) {
  const made = tableOf({
    caption: `Routes of revision ${read.revision}`,
    columns: [
      { title: "Route", head: true, cell: (route) => name(route) },
      { title: "Callers", cell: (route) => whoMay(read.table, route) },
      { title: "Limits", cell: (route) => limits(read.table, route) },
      { title: "Upstreams", cell: (route) => upstreams(route) },
      { title: "Warnings", cell: (route) => warningsBeside(warningsOf(read, route.id)) },
    ],
  });
  return chunked(routes, made, "routes");
}

function name(route) {
  const match = route.match ?? {};
  const methods = listOf(match.methods);
  return [
    h("a", { href: `#/routes/${encodeURIComponent(route.id)}` }, said(route.id, { shown: 64 })),
    h(
      "div",
      { class: "match" },
      methods.map((method) => [badge("method", said(method, { shown: 32 })), " "]),
      match.host && match.host !== "*" ? mono(match.host, { shown: 80 }) : h("span", { class: "quiet" }, "any host"),
      " ",
      mono(match.path, { shown: 120 }),
    ),
  ];
}

function whoMay(table, route) {
  const { mode, workspace, access } = callers(table, route);
  const asks = workspace
    ? ["Access, for ", mono(`{${workspace}}`, { shown: 66 })]
    : access
      ? "Access, without workspace"
      : mode === "none"
        ? null
        : "Access is not asked";
  return [
    badge(mode === "none" ? "open" : "closed", MODES[mode] ?? said(mode)),
    asks && h("div", { class: "quiet small" }, asks),
  ];
}

function limits(table, route) {
  const of = policy(table, route);
  const body = of("maxBodyBytes").value;
  const client = of("rateLimits.client").value;
  const principal = of("rateLimits.principal").value;
  const lines = [
    budget("address", client),
    budget("caller", principal),
    body !== undefined && (body === 0 ? "bodies unbounded" : `bodies up to ${bytes(body)}`),
    of("websocket").value === true && "WebSockets",
  ].filter(Boolean);
  return lines.length > 0
    ? h(
        "ul",
        { class: "bare small" },
        lines.map((line) => h("li", {}, line)),
      )
    : h("span", { class: "quiet small" }, "the deployment’s");
}

function upstreams(route) {
  const all = listOf(route.upstream);
  const shown = all.slice(0, 3).map((url) => h("li", {}, mono(withoutPassword(url), { shown: 80 })));
  return h(
    "ol",
    { class: "bare small" },
    shown,
    all.length > 3 && h("li", { class: "quiet" }, `and ${all.length - 3} more`),
  );
}

const warningsBeside = (warnings) =>
  warnings.length > 0 ? warningList(warnings) : h("span", { class: "quiet small" }, "none");
