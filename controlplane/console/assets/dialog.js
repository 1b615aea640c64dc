// Asking before something is done.

import { fill, focusOn, freshId, h } from "./dom.js";
import { failure, loading } from "./parts.js";

/**
 * Asks before something is done, does it while the dialog is open, and stays open with the failure when it fails.
 * Resolves with what `run()` answered, or null when the person thought better of it. The focus returns to where it was.
 */
export function confirmed({ title, body, action, run, danger = false }) {
  const back = document.activeElement;
  const titleId = freshId("dialog");
  const outcome = h("div", {});
  const yes = h("button", { type: "button", class: danger ? "danger" : "primary" }, action);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const dialog = h(
    "dialog",
    { "aria-labelledby": titleId },
    h("h2", { id: titleId }, title),
    h("div", { class: "body", tabindex: "0", role: "region", "aria-labelledby": titleId }, body),
    outcome,
    h("p", { class: "buttons" }, no, yes),
  );
  let result = null;
  const busy = (now) => {
    dialog.toggleAttribute("data-busy", now);
    yes.disabled = no.disabled = now;
  };
  return new Promise((resolve) => {
    yes.addEventListener("click", async () => {
      busy(true);
      fill(outcome, loading("Working…"));
      try {
        result = await run();
        dialog.close();
      } catch (error) {
        busy(false);
        fill(outcome, failure(error));
        if (error.kind === "unauthorized") dialog.close();
        else no.focus();
      }
    });
    dialog.addEventListener("cancel", (event) => dialog.hasAttribute("data-busy") && event.preventDefault());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (back?.isConnected) back.focus();
      else focusOn(document.querySelector("main h1"));
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

/** Closes whatever asks, as when the view behind it is left; what is being done stays open until it is done. */
export function dismiss() {
  for (const dialog of document.querySelectorAll("dialog[open]:not([data-busy])")) dialog.close();
}
