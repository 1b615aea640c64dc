// The table that is being edited. It is kept while this page is open, whatever view is shown, and nowhere else.

/** `base` is the revision it was read from (null before anything was read), `original` that revision's text. */
export const draft = { base: null, original: "", text: "" };

/** Whether it holds changes that were not published. */
export const unsaved = () => draft.base !== null && draft.text !== draft.original;

/** Takes a new text, or a new base, and tells the frame. */
export function change(values) {
  const before = unsaved();
  Object.assign(draft, values);
  if (before !== unsaved()) dispatchEvent(new Event("draft"));
}

/** Holds nothing any more. */
export const dropped = () => change({ base: null, original: "", text: "" });
