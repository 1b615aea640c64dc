// Starts the page: navigation by the address's fragment, signing in and out. No secret is ever in the address.

import { forget, signedIn, whenRefused } from "./api.js";
import * as audit from "./audit.js";
import * as compare from "./compare.js";
import { confirmed, dismiss } from "./dialog.js";
import { announce, fill, focusOn, h } from "./dom.js";
import { dropped, unsaved } from "./draft.js";
import * as edit from "./edit.js";
import * as history from "./history.js";
import { headText } from "./parts.js";
import * as replicas from "./replicas.js";
import * as routes from "./routes.js";
import { leave, session } from "./session.js";
import * as sessions from "./sessions.js";
import { signIn } from "./signin.js";
import { said } from "./text.js";

const VIEWS = { routes, edit, history, compare, replicas, sessions, audit };
const PLACES = ["routes", "edit", "history", "replicas", "sessions", "audit"];

const main = document.getElementById("main");
const nav = document.querySelector("nav");
const who = document.querySelector(".who");
let leaving = new AbortController();

/** What the address asks for: a view's name, the segments behind it, and its query. */
function asked() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/").map(decoded);
  return { name: name || home(), rest, query: new URLSearchParams(query) };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const home = () => (session.may.config === false ? "sessions" : "routes");

function frame() {
  const { name } = asked();
  nav.hidden = who.hidden = !signedIn();
  if (!signedIn()) return void fill(who);
  const here = name === "compare" ? "history" : name;
  const links = PLACES.map((place) => {
    const closed = session.may[VIEWS[place].needs] === false;
    const mark =
      place === "edit" && unsaved()
        ? h("span", { class: "dot" }, h("span", { class: "unseen" }, " (not published)"))
        : null;
    const note = closed && h("span", { class: "unseen" }, " (not with this token)");
    return h(
      "li",
      {},
      h(
        "a",
        { href: `#/${place}`, class: closed && "closed", "aria-current": place === here && "page" },
        VIEWS[place].title,
        mark,
        note,
      ),
    );
  });
  fill(nav, h("ul", {}, links));
  const known = said(session.operator, { shown: 30 });
  const operator = h("span", { class: "operator", title: "What the audit trail calls you" }, known);
  const scope = h("span", { class: "badge", title: "The scope of this token" }, session.scope);
  fill(who, operator, scope, h("button", { type: "button", onclick: forgetAsked }, "Forget token"));
}

function show({ moved = true } = {}) {
  leaving.abort(new DOMException("the view was left", "AbortError"));
  leaving = new AbortController();
  dismiss();
  frame();
  if (!signedIn()) return signIn(main, { reason: session.reason, done: welcome });
  const { name, rest, query } = asked();
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : nowhere;
  const place = h("div", { class: `view ${view.title.toLowerCase()}` });
  fill(main, place);
  document.title = headText(view.title);
  const keep = (values) => window.history.replaceState(null, "", addressOf([name, ...rest], values));
  view.show({ place, rest, query, keep, signal: leaving.signal });
  if (moved) {
    scrollTo(0, 0);
    focusOn(place.querySelector("h1"));
  }
}

/** The fragment of a view: its segments, and the values of its query that are not empty. */
function addressOf(segments, values) {
  const filled = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(filled).toString();
  return `#/${segments.map(encodeURIComponent).join("/")}${query && `?${query}`}`;
}

const nowhere = {
  title: "Nothing here",
  show: ({ place }) =>
    fill(place, h("h1", {}, "Nothing is here"), h("p", {}, h("a", { href: "#/routes" }, "Go to the routes"))),
};

function welcome() {
  show();
  announce(`Signed in as ${session.operator}. This token has the scope ${session.scope}.`);
}

/** Back to the form, which says the reason. What is being edited stays, for whoever signs in again. */
function signOut(reason = "") {
  forget();
  leave(reason);
  show();
}

/** The person is done: nothing of theirs stays in the page. */
async function forgetAsked() {
  const sure =
    !unsaved() ||
    (await confirmed({
      title: "Forget your changes, too?",
      body: [h("p", {}, "The table that you changed is not published. With the token, this page forgets it.")],
      action: "Forget both",
      danger: true,
      run: async () => true,
    }));
  if (!sure) return;
  dropped();
  signOut();
  announce("The token is forgotten.");
}

whenRefused(
  (error) => session.entered && signOut(`The control plane does not accept this token any more: ${error.message}`),
);
addEventListener("hashchange", () => show());
addEventListener("draft", frame);
// A browser may keep a page that was left, to show it again at once: without the token.
addEventListener("pagehide", () => {
  forget();
  leave("");
});
addEventListener("pageshow", (event) => event.persisted && show());
addEventListener("beforeunload", (event) => unsaved() && event.preventDefault());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  focusOn(main.querySelector("h1") ?? main);
});
show({ moved: false });
