// The form that takes a token.

import { announce, fill, h } from "./dom.js";
import { failure, field, headText, waitWith } from "./parts.js";
import { enter } from "./session.js";

/** Shows the form; `reason` says why it is shown again. `done()` is called once a token was accepted. */
export function signIn(main, { reason, done }) {
  const input = h("input", {
    type: "password",
    name: "token",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    required: true,
  });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const outcome = h("div", {}, reason && h("div", { class: "state error", role: "alert" }, h("p", {}, reason)));
  const submit = async (event) => {
    event.preventDefault();
    const token = input.value.trim();
    input.value = "";
    if (!/^[\x21-\x7e]+$/.test(token))
      return complain(outcome, input, "A token is made of printable ASCII characters, without spaces.");
    button.disabled = input.disabled = true;
    try {
      await enter(token);
      done();
    } catch (error) {
      button.disabled = input.disabled = false;
      fill(outcome, failure(error.kind === "unauthorized" ? unknown(error) : error));
      if (error.kind === "throttled" && error.retryAfterS > 0) waitWith(button, error.retryAfterS);
      input.focus();
    }
  };
  document.title = headText("Sign in");
  const form = h(
    "form",
    { class: "card signin", onsubmit: submit, novalidate: true },
    h("h1", {}, "Sign in"),
    h(
      "p",
      { class: "quiet" },
      "With a token of ",
      h("code", {}, "GATEWAY_CONTROL_TOKENS"),
      ". This page keeps it in its memory alone: reloading the page forgets it.",
    ),
    outcome,
    field("Token", input),
    h("p", { class: "buttons" }, button),
  );
  fill(main, form);
  input.focus();
}

function complain(outcome, input, text) {
  fill(outcome, h("div", { class: "state error", role: "alert" }, h("p", {}, text)));
  announce(text);
  input.focus();
}

const unknown = (error) => Object.assign(error, { message: "The control plane does not know this token." });
