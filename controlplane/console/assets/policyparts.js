// Parts of a route's policy that several views write the same way.

import { h } from "./dom.js";
import { count, duration, mono, said } from "./text.js";

/** Warnings by the id of their route; "" holds those of the whole table. */
export function byRoute(warnings) {
  const found = new Map();
  for (const one of warnings) found.set(one.route ?? "", [...(found.get(one.route ?? "") ?? []), one]);
  return found;
}

/** The warnings of one route, of what `byRoute` made. */
export const warningsOf = ({ byRoute: found }, id) => found.get(id) ?? [];

/** Warnings as a list: the setting, and what it opens. `about(warning)` may add something in front. */
export const warningList = (warnings, about = () => null) =>
  h(
    "ul",
    { class: "warnings" },
    warnings.map((one) => h("li", {}, about(one), mono(one.setting), " ", said(one.message))),
  );

/** A budget in words; null without one. */
export function budget(whose, part) {
  if (!part) return null;
  if (part.max === 0) return `no limit by ${whose}`;
  return `${count(part.max)} by ${whose}${part.windowMs ? ` in ${duration(part.windowMs)}` : ""}`;
}
