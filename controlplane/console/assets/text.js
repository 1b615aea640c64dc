// How values from outside are written: harmless, at a readable length, times where the reader is.

import { h } from "./dom.js";

const SHOWN = 240;

// Controls, direction overrides, zero-width and other characters that change how the text around them is read.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;

/** The text with every character that cannot be seen, or that turns the direction of others, as its code. */
export function visible(text) {
  return String(text).replace(UNSEEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

/** One line of source text: as `visible`, and tabs stay. */
export function visibleLine(text) {
  return String(text).replace(UNSEEN, (found) => (found === "\t" ? found : visible(found)));
}

/** A text from outside, apart from the direction of its surroundings; a long one is cut, with a button for the rest. */
export function said(text, { shown = SHOWN, code = false } = {}) {
  const tag = code ? "code" : "bdi";
  const characters = Array.from(visible(text ?? ""));
  if (characters.length <= shown) return h(tag, { dir: "ltr", class: "said" }, characters.join(""));
  const body = h("span", {}, characters.slice(0, shown).join(""), "…");
  const more = h(
    "button",
    {
      type: "button",
      class: "link",
      onclick: () => {
        body.textContent = characters.join("");
        more.remove();
      },
    },
    `Show all ${count(characters.length)} characters`,
  );
  return h("span", { class: "long" }, h(tag, { dir: "ltr", class: "said" }, body), " ", more);
}

/** As `said`, in the face of code. */
export const mono = (text, options = {}) => said(text, { ...options, code: true });

/** A number with its groups. */
export function count(number) {
  return Number(number).toLocaleString("en").replaceAll(",", "\u202f");
}

/** `1 route`, `2 routes`. */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

const LOCAL = {
  medium: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }),
  short: new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }),
};

/** A time (RFC 3339) where the reader is, `short` without seconds; its title is UTC. What is none stays as it is. */
export function when(text, length = "medium") {
  const time = new Date(text ?? NaN);
  if (Number.isNaN(time.getTime())) return said(text || "unknown");
  const utc = time.toISOString();
  const title = `${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC`;
  return h("time", { datetime: utc, title }, LOCAL[length].format(time));
}

/** An age in milliseconds, roughly. */
export function ago(ms) {
  const seconds = Math.round(ms / 1_000);
  if (seconds < 2) return "just now";
  return seconds < 90 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
}

/** Milliseconds as a person says them, exactly. */
export function duration(ms) {
  for (const [unit, length] of [
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ]) {
    if (ms >= length && ms % (length / 10) === 0) return `${ms / length}\u00a0${unit}`;
  }
  return `${count(ms)}\u00a0ms`;
}

/** Bytes as a person says them, exactly. */
export function bytes(number) {
  for (const [unit, length] of [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 1_024],
  ]) {
    if (number >= length && number % length === 0) return `${number / length}\u00a0${unit}`;
  }
  return `${count(number)}\u00a0bytes`;
}
