// Places in a JSON text, also in one that somebody is still writing: what cannot be read is not guessed at.

const SPACE = /[ \t\r\n]*/y;
const BARE = /[^\s,:[\]{}"]+/y;
const STEP = /\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|([^.[\]]+)/g;
const PLACE = /at line (\d+), column (\d+)/;

/** Where `path` (`routes[2].match.path`) is: `{ start, end, whole }`; not `whole`: the nearest place around it. */
export function locate(text, path) {
  let found = span(text, skip(text, 0, SPACE));
  if (!found) return { start: 0, end: 0, whole: false };
  for (const [, index, quoted, name] of path.matchAll(STEP)) {
    const step = index !== undefined ? Number(index) : quoted !== undefined ? keyOf(`"${quoted}"`) : name;
    const inner = entry(text, found, step);
    if (!inner) return { ...found, whole: false };
    found = inner;
  }
  return { ...found, whole: true };
}

/** Where an error of the API points to: by its path, or by the line and column that its message names. */
export function placeOf(text, { path = "", message = "" }) {
  const told = path === "" ? PLACE.exec(message) : null;
  if (!told) return locate(text, path);
  let start = 0;
  for (let line = 1; line < Number(told[1]); line += 1) start = text.indexOf("\n", start) + 1;
  start = Math.min(start + Number(told[2]) - 1, text.length);
  return { start, end: Math.min(start + 1, text.length), whole: true };
}

/** The text with two spaces a level and one value a line, tokens untouched; null where the brackets do not fit. */
export function laidOut(text) {
  const open = [];
  let out = "";
  let at = 0;
  const line = () => `\n${"  ".repeat(open.length)}`;
  for (;;) {
    at = skip(text, at, SPACE);
    if (at >= text.length) return open.length === 0 ? `${out}\n` : null;
    const mark = text[at];
    if (mark === "{" || mark === "[") {
      const end = mark === "{" ? "}" : "]";
      const inside = skip(text, at + 1, SPACE);
      if (text[inside] === end) {
        out += mark + end;
        at = inside + 1;
      } else {
        open.push(end);
        out += mark + line();
        at += 1;
      }
    } else if (mark === "}" || mark === "]") {
      if (open.pop() !== mark) return null;
      out += line() + mark;
      at += 1;
    } else if (mark === ",") {
      out += mark + line();
      at += 1;
    } else if (mark === ":") {
      out += ": ";
      at += 1;
    } else {
      const end = scalar(text, at);
      if (end === at) return null;
      out += text.slice(at, end);
      at = end;
    }
  }
}

function skip(text, at, pattern) {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

// Where the string, number or word ends; where it began when there is none, or a string has no end.
function scalar(text, at) {
  if (text[at] !== '"') return skip(text, at, BARE);
  for (let end = text.indexOf('"', at + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text[end - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return end + 1;
  }
  return at;
}

function span(text, start) {
  const mark = text[start];
  if (mark !== "{" && mark !== "[") {
    const end = scalar(text, start);
    return end === start ? null : { start, end };
  }
  let depth = 0;
  for (let at = start; at < text.length;) {
    const here = text[at];
    if (here === '"') {
      const end = scalar(text, at);
      at = end === at ? text.length : end;
      continue;
    }
    if (here === "{" || here === "[") depth += 1;
    if (here === "}" || here === "]") depth -= 1;
    at += 1;
    if (depth === 0) return { start, end: at };
  }
  return { start, end: text.length };
}

// A key that stands twice: the last one, which is what most readers would take.
function entry(text, around, step) {
  const object = text[around.start] === "{";
  if (!object && text[around.start] !== "[") return null;
  let at = around.start + 1;
  let last = null;
  for (let index = 0; ; index += 1) {
    at = skip(text, at, SPACE);
    let key = index;
    if (object) {
      const end = scalar(text, at);
      if (text[at] !== '"' || end === at) return last;
      key = keyOf(text.slice(at, end));
      at = skip(text, end, SPACE);
      if (text[at] !== ":") return last;
      at = skip(text, at + 1, SPACE);
    }
    const value = span(text, at);
    if (!value) return last;
    if (key === step) last = value;
    if (!object && key === step) return last;
    at = skip(text, value.end, SPACE);
    if (text[at] !== ",") return last;
    at += 1;
  }
}

function keyOf(token) {
  try {
    return JSON.parse(token);
  } catch {
    return null;
  }
}
