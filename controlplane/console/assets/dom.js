// Makes elements. Text always becomes a text node: nothing that the page shows is ever read as markup.

/**
 * One element. `props` are attributes (`true` sets an empty one; null, undefined and false leave it out), `on…` are
 * listeners. Children are nodes, texts, numbers, or arrays of them; null, undefined and false are left out.
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

/** Appends children as `h` takes them. */
export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Replaces what the element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, children);
}

let counter = 0;

/** An id for an element that another one refers to. */
export function freshId(name) {
  counter += 1;
  return `${name}-${counter}`;
}

/** Says a result to those who do not see it; a repeated text is said again. */
export function announce(text) {
  const live = document.getElementById("live");
  live.textContent = live.textContent === text ? `${text}\u00a0` : text;
}

/** Moves the focus to a heading or region that is no control. */
export function focusOn(element) {
  if (!element) return;
  if (!element.hasAttribute("tabindex")) element.setAttribute("tabindex", "-1");
  element.focus();
}
