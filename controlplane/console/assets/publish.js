// Publishing the draft, and finding out what became of it when no answer came.

import { ApiError } from "./api.js";
import { active, publish } from "./config.js";
import { draft } from "./draft.js";

/**
 * `{ revision }` when the text is published, `{ conflict: true, active }` when another revision is active by now.
 * Raises ApiError when it is not published, or when nobody can say.
 */
export async function publishDraft(text) {
  try {
    return { revision: await publish(text, draft.base) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.kind === "conflict" && error.code !== "protected_route")
      return { conflict: true, active: error.revision ?? (await active()).revision };
    if (error.kind === "unreachable" || error.kind === "late") return whatBecameOf(text);
    throw error;
  }
}

// The answer got lost: the request may have been carried out. What is active now tells.
async function whatBecameOf(text) {
  let now;
  try {
    now = await active();
  } catch {
    throw new ApiError(
      "unreachable",
      "No answer came, so it is not known whether this was published. Look at the history before you publish again.",
    );
  }
  if (now.revision === draft.base)
    throw new ApiError("unreachable", "No answer came. It was not published: try again.");
  if (now.revision === draft.base + 1 && sameTable(now.text, text)) return { revision: now.revision };
  return { conflict: true, active: now.revision };
}

function sameTable(one, other) {
  try {
    return JSON.stringify(JSON.parse(one)) === JSON.stringify(JSON.parse(other));
  } catch {
    return false;
  }
}
