// What is shown when somebody published while a table was being edited.

import { diffView, touched } from "./diffview.js";
import { fill, h } from "./dom.js";
import { load } from "./parts.js";
import { count, mono } from "./text.js";

const SHOWN = 20;

/** `anew()` takes the active revision as the new base and checks the text against it. */
export function conflict({ base, active, signal, fetchDiff, anew }) {
  const meanwhile = h("div", {});
  const button = h(
    "button",
    {
      type: "button",
      class: "primary",
      onclick: async () => {
        button.disabled = true;
        await anew();
      },
    },
    `Compare my text with revision ${count(active)}`,
  );
  if (base === 0) fill(meanwhile, h("p", {}, "The first table was published by somebody else."));
  else
    load(
      meanwhile,
      "Comparing…",
      signal,
      () => fetchDiff(base, active, signal),
      (diff) => [
        warning(diff),
        diffView(diff, {
          before: `revision ${count(base)}, which you began with`,
          after: `revision ${count(active)}, active`,
        }),
      ],
    );
  return h(
    "section",
    { class: "card conflict" },
    h("h2", {}, `Revision ${count(active)} was published meanwhile`),
    h(
      "p",
      {},
      `You began with revision ${count(base)}. Nothing was published, and your text is as you left it. `,
      "This is what others changed:",
    ),
    meanwhile,
    h("p", { class: "buttons" }, button),
  );
}

function warning(diff) {
  const ids = touched(diff);
  if (ids.length === 0) return null;
  const named = ids.slice(0, SHOWN).map((id, index) => [index > 0 && ", ", mono(id)]);
  return h(
    "p",
    { class: "state warn" },
    "Your text knows nothing of these changes: published as it is, it would undo them. ",
    "Take over what you want to keep of ",
    named,
    ids.length > SHOWN && ` and ${ids.length - SHOWN} more`,
    ", then compare again.",
  );
}
