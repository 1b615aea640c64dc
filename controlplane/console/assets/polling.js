// Asking again and again, while somebody looks.

import { pause } from "./api.js";

/** Calls `run` now and `everyMs` after it ended, not while the page is hidden, until the signal is aborted. */
export async function polled(everyMs, signal, run) {
  try {
    for (;;) {
      await whileHidden(signal);
      await run();
      await pause(everyMs, signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function whileHidden(signal) {
  while (document.hidden) {
    await new Promise((resolve) => {
      const woken = () => resolve();
      document.addEventListener("visibilitychange", woken, { once: true, signal });
      signal.addEventListener("abort", woken, { once: true });
    });
    signal.throwIfAborted();
  }
}
