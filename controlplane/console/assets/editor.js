// A text area with line numbers that can show a place. Tab leaves it, as in every form.

import { freshId, h } from "./dom.js";

/** `{ element, textarea, set(text), jump({ start, end }) }`; `oninput(text)` hears of every change by the person. */
export function editor(label, text, oninput) {
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
  const textarea = h("textarea", {
    id: freshId("editor"),
    class: "source",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    wrap: "off",
    "aria-label": label,
    dir: "ltr",
  });
  const redraw = () => number(textarea, numbers);
  textarea.addEventListener("scroll", redraw, { passive: true });
  textarea.addEventListener("input", () => {
    oninput(textarea.value);
    redraw();
  });
  new ResizeObserver(redraw).observe(textarea);
  const set = (value) => {
    textarea.value = value;
    redraw();
  };
  set(text);
  return {
    element: h("div", { class: "editor" }, numbers, textarea),
    textarea,
    set,
    jump: (place) => jump(textarea, place),
  };
}

function metrics(textarea) {
  const style = getComputedStyle(textarea);
  return { height: parseFloat(style.lineHeight) || 20, top: parseFloat(style.paddingTop) || 0 };
}

// Only the numbers in view exist: a table may have hundreds of thousands of lines.
function number(textarea, numbers) {
  const { height, top } = metrics(textarea);
  const first = Math.max(0, Math.floor((textarea.scrollTop - top) / height));
  const total = lines(textarea.value, textarea.value.length) + 1;
  const last = Math.min(total, first + Math.ceil(textarea.clientHeight / height) + 1);
  const shown = [];
  for (let line = first + 1; line <= last; line += 1) shown.push(line);
  numbers.textContent = shown.join("\n");
  numbers.style.transform = `translateY(${top + first * height - textarea.scrollTop}px)`;
  numbers.style.minWidth = `${String(total).length + 2}ch`;
}

/** How many line ends stand before `end`. */
function lines(text, end) {
  let found = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < end; at = text.indexOf("\n", at + 1)) found += 1;
  return found;
}

function jump(textarea, { start, end }) {
  const lineEnd = textarea.value.indexOf("\n", start);
  const until = lineEnd === -1 ? end : Math.min(end, lineEnd);
  const { height } = metrics(textarea);
  textarea.focus({ preventScroll: true });
  textarea.setSelectionRange(start, Math.max(until, start));
  const line = lines(textarea.value, start);
  const column = start - (textarea.value.lastIndexOf("\n", start - 1) + 1);
  textarea.scrollTop = Math.max(0, line * height - textarea.clientHeight / 3);
  textarea.scrollLeft = column > 60 ? (column - 20) * height * 0.4 : 0;
  textarea.scrollIntoView({ block: "nearest" });
}
