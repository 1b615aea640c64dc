// Who is signed in at the gateways, ending their sessions, and forgetting decisions of Access.

import { ask } from "./api.js";
import { confirmed } from "./dialog.js";
import { announce, fill, h } from "./dom.js";
import { paged, table } from "./lists.js";
import { empty, field } from "./parts.js";
import { lacking, session } from "./session.js";
import { mono, plural, said, visible, when } from "./text.js";

export const title = "Sessions";
export const needs = "sessions";

const HANDLE = /^[0-9a-f]{16}$/;

export function show({ place, query, keep, signal }) {
  const list = h("div", {});
  const subject = h("input", {
    type: "search",
    name: "subject",
    autocomplete: "off",
    spellcheck: "false",
    value: query.get("subject") ?? "",
  });
  const listSessions = () => {
    keep({ subject: subject.value });
    return listed(list, subject.value, signal);
  };
  const submit = (event) => {
    event.preventDefault();
    listSessions().then(() => announce(list.querySelector("tbody") ? "Sessions listed" : "No session"));
  };
  fill(
    place,
    h("h1", {}, "Sessions"),
    h(
      "p",
      { class: "lead" },
      "Browsers that are signed in. A session that is revoked ends with its next request; ",
      "open WebSockets close when they are looked at again.",
    ),
    session.may.sessions !== false &&
      h(
        "form",
        { class: "tools", role: "search", onsubmit: submit },
        field("Subject", subject, "Exactly as the identity provider names it; empty for everyone."),
        h("button", { type: "submit" }, "List"),
      ),
    list,
    session.may.sessions !== false && [byHandle(listSessions), decisions()],
  );
  listSessions();
}

function listed(list, subject, signal) {
  const again = () => listed(list, subject, signal);
  const made = table({
    caption: subject ? `Sessions of ${visible(subject.slice(0, 100))}` : "Sessions of everyone",
    columns: [
      {
        title: "Subject",
        head: true,
        cell: (one) => [said(one.subject), one.email && h("div", { class: "quiet small" }, said(one.email))],
      },
      { title: "Handle", cell: ({ handle }) => h("span", { class: HANDLE.test(handle) && "handle" }, mono(handle)) },
      {
        title: "Roles",
        cell: ({ roles }) => (roles?.length > 0 ? said(roles.join(", ")) : h("span", { class: "quiet" }, "none")),
      },
      { title: "Signed in", cell: (one) => when(one.createdAt, "short") },
      { title: "Last used", cell: (one) => when(one.lastUsedAt, "short") },
      { title: "Ends", cell: ends },
      {
        title: "Actions",
        cell: (one) => operate("Revoke", `the session ${one.handle}`, () => revokeOne(one.handle, again, one.subject)),
      },
    ],
  });
  const all =
    subject &&
    h(
      "p",
      {},
      operate("Revoke all of them", `sessions of ${visible(subject)}`, () => revokeAll(subject, again)),
    );
  const none = [
    empty("No live session.", subject ? "This subject is not signed in anywhere." : "Nobody is signed in."),
    all,
  ];
  return paged(list, {
    text: "Reading the sessions…",
    signal,
    made,
    none,
    noun: "sessions",
    fetchPage: async (cursor) => (await ask("sessions", { query: { subject, cursor, limit: 50 }, signal })).data,
  }).then(() => list.querySelector("tbody") && all && list.prepend(all));
}

/** Unused, a session ends before its time. */
function ends({ idleExpiresAt, expiresAt }) {
  if (!(idleExpiresAt < expiresAt)) return when(expiresAt, "short");
  return [
    when(idleExpiresAt, "short"),
    h("div", { class: "quiet small" }, "if not used; at the latest ", when(expiresAt, "short")),
  ];
}

/** A button for what only the scope `operate` may. */
function operate(label, what, onclick) {
  const why = lacking("operate");
  return h(
    "button",
    { type: "button", class: "danger", disabled: why !== "", title: why, onclick },
    label,
    h("span", { class: "unseen" }, ` (${what})${why && `. ${why}`}`),
  );
}

async function revokeOne(handle, again, subject = null) {
  const done = await confirmed({
    title: "Revoke this session?",
    body: [
      h("p", {}, "Handle ", mono(handle), subject !== null && [", of ", said(subject)], "."),
      h("p", {}, "Whoever uses it must sign in again."),
    ],
    action: "Revoke it",
    danger: true,
    run: () => ask(`sessions/${encodeURIComponent(handle)}`, { method: "DELETE" }),
  });
  if (done === null) return;
  await again();
  announce(`Revoked ${plural(done.data.revoked, "session")}.`);
}

async function revokeAll(subject, again) {
  const done = await confirmed({
    title: "Revoke every session?",
    body: [
      h(
        "p",
        {},
        "All sessions of ",
        said(subject),
        ", on every device. Bearer tokens that the identity provider gave out are not touched.",
      ),
    ],
    action: "Revoke them all",
    danger: true,
    run: () => ask("sessions", { method: "DELETE", query: { subject } }),
  });
  if (done === null) return;
  await again();
  announce(`Revoked ${plural(done.data.revoked, "session")} of the subject.`);
}

function byHandle(again) {
  const handle = h("input", { type: "text", autocomplete: "off", spellcheck: "false", size: 18 });
  const outcome = h("p", { role: "alert", class: "complaint" });
  const revoke = () => {
    const given = handle.value.trim().toLowerCase();
    const wrong = !HANDLE.test(given);
    outcome.textContent = wrong ? "A handle is 16 hexadecimal characters, as the list and the log show it." : "";
    if (wrong) return handle.focus();
    return revokeOne(given, again);
  };
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Revoke by handle"),
    h(
      "div",
      { class: "tools" },
      field("Handle", handle, "The first 16 characters of the SHA-256 of a session’s id."),
      operate("Revoke", "the session with this handle", revoke),
    ),
    outcome,
  );
}

function decisions() {
  const subject = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const workspace = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const outcome = h("p", { role: "status" });
  const complaint = h("p", { role: "alert", class: "complaint" });
  const drop = async () => {
    outcome.textContent = complaint.textContent = "";
    if (subject.value === "" && workspace.value === "") {
      complaint.textContent = "Name a subject, a workspace, or both.";
      return subject.focus();
    }
    const query = { subject: subject.value, workspaceId: workspace.value };
    const done = await confirmed({
      title: "Forget cached decisions?",
      body: [
        h(
          "p",
          {},
          "What Access decided",
          query.subject && [" about ", said(query.subject)],
          query.workspaceId && [" for the workspace ", mono(query.workspaceId)],
          " is forgotten; gateways ask it again with the next request.",
        ),
      ],
      action: "Forget them",
      run: () => ask("decisions", { method: "DELETE", query }),
    });
    if (done !== null) outcome.textContent = `Forgot ${plural(done.data.dropped, "decision")}.`;
    return undefined;
  };
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Cached decisions of Access"),
    h(
      "p",
      { class: "quiet" },
      "After rights were changed: gateways keep a decision for a while, and these are forgotten at once.",
    ),
    h(
      "div",
      { class: "tools" },
      field("Subject", subject),
      field("Workspace", workspace),
      operate("Forget", "decisions that match", drop),
    ),
    complaint,
    outcome,
  );
}
