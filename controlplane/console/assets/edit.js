// Edit the table, have it checked, see what would change, publish it.

import { ApiError } from "./api.js";
import { active, check, difference } from "./config.js";
import { conflict } from "./conflict.js";
import { confirmed } from "./dialog.js";
import { diffView, differs, inShort } from "./diffview.js";
import { announce, fill, focusOn, h } from "./dom.js";
import { change, draft, unsaved } from "./draft.js";
import { editor } from "./editor.js";
import { errorList, protectedNote, warningsFound } from "./findings.js";
import { laidOut, locate } from "./json_text.js";
import { failure, load, loading } from "./parts.js";
import { publishDraft } from "./publish.js";
import { lacking } from "./session.js";
import { count, plural } from "./text.js";

export const title = "Edit";
export const needs = "config";

const FIRST = `{
  "version": 2,
  "hosts": ["api.example.com"],
  "defaults": { "auth": { "mode": "session" } },
  "routes": [
    {
      "id": "first",
      "match": { "host": "api.example.com", "path": "/" },
      "upstream": "http://127.0.0.1:3000"
    }
  ]
}
`;

export function show({ place, query, signal }) {
  const content = h("div", {});
  fill(place, h("h1", {}, "Edit the table"), content);
  const begin = async () => {
    if (!unsaved()) await readActive(signal);
    return draft;
  };
  load(content, "Reading the active table…", signal, begin, () => desk(signal, query.get("at")));
}

// Browsers take their time over text areas of more than some ten thousand lines.
const LARGE = 2_000_000;
const LARGE_NOTE = "This table is large, and typing in it may be slow. gatewayctl publishes one from a file.";

/** Starts the draft anew from what is active. */
async function readActive(signal) {
  const { text, revision } = await active(signal);
  const beginning = revision === 0 ? FIRST : readable(text);
  change({ base: revision, original: beginning, text: beginning });
}

// A table that a program wrote stands in one line.
const readable = (text) => (text.trim().includes("\n") ? text : (laidOut(text) ?? text));

function desk(signal, at) {
  const status = h("p", { class: "status", role: "status" });
  const results = h("section", { class: "results", "aria-label": "What the check found" });
  const based = h("p", { class: "lead" });
  const publishButton = h("button", { type: "button", class: "primary" }, "Publish…");
  const checkButton = h("button", { type: "button" }, "Check");
  const view = { signal, status, results, publishButton, checkButton, checked: null, asked: 0 };
  const area = editor("The route table as JSON", draft.text, (text) => {
    change({ text });
    forgetCheck(view);
  });
  Object.assign(view, { area, showBase: () => fill(based, baseText()) });
  checkButton.addEventListener("click", () => checkNow(view));
  publishButton.addEventListener("click", () => publishNow(view));
  area.textarea.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) checkNow(view);
  });
  view.showBase();
  forgetCheck(view);
  const why = lacking("config");
  // Once it is in the page.
  if (at) requestAnimationFrame(() => area.jump(locate(draft.text, at)));
  return [
    based,
    h(
      "div",
      { class: "tools" },
      h("button", { type: "button", onclick: () => layOut(view) }, "Lay out"),
      filePicker(view),
      h("button", { type: "button", onclick: () => startAgain(view) }, "Start again"),
    ),
    draft.text.length > LARGE && h("p", { class: "state warn" }, LARGE_NOTE),
    area.element,
    h("div", { class: "bar" }, status, checkButton, publishButton),
    why && h("p", { class: "state warn", id: "why-not" }, why),
    results,
  ];
}

function baseText() {
  if (draft.base === 0) return "No table was ever published. This one becomes revision 1.";
  return [
    "Based on revision ",
    h("strong", {}, count(draft.base)),
    ". Check it (Ctrl and Enter), look at what would change, then publish.",
  ];
}

function forgetCheck(view) {
  view.checked = null;
  view.publishButton.disabled = true;
  view.status.textContent = unsaved() || draft.base === 0 ? "Not checked" : "Nothing is changed yet";
  view.results.classList.toggle("stale", view.results.childNodes.length > 0);
}

async function checkNow(view) {
  const text = draft.text;
  const turn = (view.asked += 1);
  view.checkButton.disabled = true;
  fill(view.status, loading("Checking…"));
  view.results.classList.remove("stale");
  try {
    const found = await check(text, view.signal);
    if (view.signal.aborted || turn !== view.asked) return;
    view.checkButton.disabled = false;
    showFound(view, { ...found, text });
  } catch (error) {
    if (view.signal.aborted) return;
    if (!(error instanceof ApiError)) console.error(error);
    view.checkButton.disabled = false;
    view.status.textContent = "The check did not work";
    fill(
      view.results,
      failure(error, () => checkNow(view)),
    );
  }
}

function showFound(view, found) {
  const { errors, warnings, protectedRoutes, revision, diff, text } = found;
  const refused = errors.length > 0 || protectedRoutes.length > 0;
  const told = errors.length > 0 ? plural(errors.length, "error") : `Valid, ${plural(warnings.length, "warning")}`;
  view.status.textContent = told;
  const changedMeanwhile = text !== draft.text;
  view.checked = refused || changedMeanwhile ? null : found;
  view.publishButton.disabled = view.checked === null || lacking("config") !== "";
  if (changedMeanwhile) view.status.textContent = `${told}, before the last change`;
  fill(
    view.results,
    errors.length > 0 && errorList(errors, view.area.jump),
    protectedRoutes.length > 0 && protectedNote(protectedRoutes),
    revision !== draft.base &&
      h(
        "p",
        { class: "state warn" },
        `Revision ${count(revision)} was published since you began with ${count(draft.base)}. `,
        `What is below is compared with ${count(revision)}; publishing will show you what changed in between.`,
      ),
    warnings.length > 0 && warningsFound(warnings, view.area.jump),
    diff &&
      h(
        "section",
        { class: "card" },
        h("h2", {}, "What would change"),
        diffView(diff, {
          before: revision === 0 ? "nothing" : `revision ${count(revision)}, active`,
          after: "your text",
        }),
      ),
  );
}

async function publishNow(view) {
  const { checked } = view;
  if (checked === null) return;
  const { diff, warnings, revision } = checked;
  if (revision !== draft.base) return showConflict(view, revision);
  const outcome = await confirmed({
    title: `Publish as revision ${count(draft.base + 1)}?`,
    body: [
      h(
        "p",
        {},
        diff ? `${inShort(diff)}.` : "",
        diff && !differs(diff) ? " It is written as a new revision all the same." : "",
      ),
      warnings.length > 0 && h("p", {}, `${plural(warnings.length, "warning")} for settings that open something up.`),
      h("p", {}, "Every gateway that follows the store takes it within seconds."),
    ],
    action: "Publish",
    run: () => publishDraft(checked.text),
  });
  if (outcome === null) return undefined;
  if (outcome.conflict) return showConflict(view, outcome.active);
  change({ original: checked.text, base: outcome.revision });
  location.hash = `#/replicas?revision=${outcome.revision}`;
  announce(`Revision ${outcome.revision} is published.`);
  return undefined;
}

/** Somebody else published first: shows what changed, keeps the text, and compares it anew when that is asked for. */
async function showConflict(view, activeRevision) {
  view.publishButton.disabled = true;
  view.status.textContent = `Revision ${activeRevision} is active by now`;
  const anew = async () => {
    await rebase(view);
    await checkNow(view);
  };
  fill(
    view.results,
    conflict({ base: draft.base, active: activeRevision, signal: view.signal, fetchDiff: difference, anew }),
  );
  focusOn(view.results.querySelector("h2"));
}

async function rebase(view) {
  const { text, revision } = await active(view.signal);
  change({ base: revision, original: readable(text) });
  view.showBase();
}

function layOut(view) {
  const text = laidOut(draft.text);
  if (text === null) return announce("The brackets of the text do not fit: check it first.");
  if (text !== draft.text) replace(view, { text });
  return announce("Laid out: one value a line.");
}

function replace(view, values) {
  change(values);
  view.area.set(draft.text);
  view.showBase();
  forgetCheck(view);
}

async function startAgain(view) {
  await confirmed({
    title: "Start again from the active table?",
    body: [h("p", {}, unsaved() ? "What you changed is lost." : "You changed nothing yet; the table is read anew.")],
    action: "Start again",
    danger: unsaved(),
    run: () => confirmedStart(view),
  });
}

async function confirmedStart(view) {
  await readActive(view.signal);
  replace(view, {});
  fill(view.results);
  announce("The text is the active table again.");
}

function filePicker(view) {
  const input = h("input", {
    type: "file",
    accept: ".json,application/json",
    class: "unseen",
    "aria-label": "Open a table from a file",
    onchange: async () => {
      const [file] = input.files;
      if (!file) return;
      replace(view, { text: await file.text() });
      input.value = "";
      announce("The file is in the text now. Check it.");
    },
  });
  return h("label", { class: "button" }, input, "Open a file…");
}
