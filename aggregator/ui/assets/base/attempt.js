// Actions that the server may refuse: the refusal is shown where the result would be.

import { Problem } from "./api.js";
import { problemBox } from "./dom.js";

/** Do something, and show in a place why it was refused; `start` is a button that waits meanwhile. */
export async function attempt(place, signal, act, start = null) {
  const hadFocus = start !== null && start === document.activeElement;
  if (start) start.disabled = true;
  try {
    await act();
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    place.replaceChildren(problemBox(error));
  } finally {
    if (start) start.disabled = false;
    // A button that is disabled loses the focus, and with it somebody's place on the page.
    if (hadFocus) start.focus();
  }
}
