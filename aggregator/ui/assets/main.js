// Router: show the view that the address names after the #, once there is a key.

import { Problem, key, request, tryKey } from "./base/api.js";
import { announce, h, named, problemBox } from "./base/dom.js";
import { findProvider, finishSignIn, leaveFor } from "./base/sign_in.js";
import { offerThemes } from "./base/theme.js";
import { showStudies } from "./studies/list.js";
import { showStudy } from "./study/page.js";

const main = document.getElementById("main");
const session = document.getElementById("session");
const STUDY = /^#studies\/([0-9a-f]{64})(?:\/([a-z]+)(?:\/([0-9a-f]{64}))?)?(?:\?(.*))?$/;
const OF_PATTERNS = ["decodes", "snapshots", undefined];
let leave = new AbortController();
let own = null;

/** The study, section, job and query that the address names; null for the list of studies. */
function readAddress() {
  const found = STUDY.exec(location.hash);
  if (!found) return null;
  const [, id, part, rest, query] = found;
  return { id, name: OF_PATTERNS.includes(part) ? "patterns" : part, rest, query: new URLSearchParams(query ?? "") };
}

function forget() {
  history.replaceState(null, "", "/");
  leaveKey();
}

/** Go back to the door, which says why. */
function leaveKey(problem = null) {
  key.forget();
  own = null;
  delete document.documentElement.dataset.scope;
  show(problem);
}

function showSession() {
  if (key.read() === null) {
    session.replaceChildren();
    return;
  }
  const isPerson = (own?.subject ?? null) !== null;
  session.replaceChildren(
    isPerson ? h("span", { class: "person" }, named(own.name)) : "",
    h("button", { type: "button", onclick: () => show() }, "Refresh"),
    isPerson ? h("button", { type: "button", onclick: signOut }, "Sign out") : h("button", { type: "button", onclick: forget }, "Forget the key"),
  );
}

async function signOut() {
  try {
    await request("/v1/sign-in", { method: "DELETE" });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) {
      main.replaceChildren(problemBox(error));
      return;
    }
  }
  forget();
}

/** Ask for a key, or offer to sign in; below it, why the last attempt was refused. */
async function showDoor(problem = null) {
  const signal = leave.signal;
  let provider = null;
  try {
    provider = await findProvider(signal);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    problem ??= error;
  }
  // The input has no name, so that the browser's own form submission cannot contain the key.
  const input = h("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    required: true,
    placeholder: "sfk_…",
  });
  const place = h("div", {}, problem ? problemBox(problem) : "");
  const start = provider && h("button", { type: "button", class: "main", onclick: () => leaveFor(provider) }, `Sign in with ${provider.host}`);
  async function enter(event) {
    event.preventDefault();
    const secret = input.value.trim();
    try {
      await tryKey(secret, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
      input.focus();
      return;
    }
    key.keep(secret);
    show();
  }
  main.replaceChildren(
    h(
      "section",
      { class: "card door" },
      h("h1", { tabindex: "-1" }, "See the picture, never a stroke"),
      h("p", {}, "See the studies, devices and decodes of this server. ", start ? "Sign in, or use an API key." : "You need an API key."),
      start ?? "",
      h(
        "form",
        { onsubmit: enter },
        h("label", { for: "key" }, h("span", {}, "API key")),
        h("div", { class: "buttons" }, input, h("button", { type: "submit", class: start ? null : "main" }, "Show the studies")),
      ),
      place,
      h(
        "p",
        { class: "note" },
        "The key stays in this tab until you press “Forget the key” or close the tab. It is sent only to this server, in a header. Create a key with ",
        h("code", {}, "sfumato key create --scope analyst"),
        ".",
      ),
    ),
  );
  (start ?? input).focus();
}

async function show(problem = null) {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  showSession();
  if (key.read() === null) {
    document.title = "Sfumato";
    main.removeAttribute("aria-busy");
    await showDoor(problem);
    return;
  }
  const address = readAddress();
  main.setAttribute("aria-busy", "true");
  let nodes;
  try {
    own ??= await request("/v1/keys/own", { signal });
    showSession();
    const { scope } = own;
    // The style sheet hides what a viewer may not start.
    document.documentElement.dataset.scope = scope;
    // A key of one study creates no other.
    nodes = await (address ? showStudy({ ...address, scope, isBound: Boolean(own.study_id) }, signal) : showStudies(own.study_id ? "viewer" : scope, signal));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) {
      // The key has expired, or was revoked.
      leaveKey(error);
      return;
    }
    nodes = [problemBox(error), h("p", {}, h("a", { href: "#studies" }, "All studies"))];
  }
  if (signal.aborted) return;
  main.replaceChildren(...nodes);
  main.removeAttribute("aria-busy");
  const heading = main.querySelector("h1");
  document.title = heading ? `${heading.textContent} – Sfumato` : "Sfumato";
  heading?.focus({ preventScroll: true });
  announce(heading ? heading.textContent : "");
}

/** The zone of this browser; all times on the page are in UTC. */
function showZone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const offset = -new Date().getTimezoneOffset();
  const pad = (number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  const here = offset === 0 ? "as here" : `${timeZone} is UTC${offset < 0 ? "−" : "+"}${pad(offset / 60)}:${pad(offset % 60)}`;
  document.getElementById("zone").textContent = `All times are UTC (${here}). Nothing on this page is sent to another server.`;
}

document.querySelector("a.skip").addEventListener("click", (event) => {
  // The part after the # names the view.
  event.preventDefault();
  (main.querySelector("h1") ?? main).focus();
});
offerThemes(document.getElementById("theme"));
showZone();
addEventListener("hashchange", () => {
  scrollTo(0, 0);
  show();
});

let refusal = null;
try {
  const secret = await finishSignIn();
  if (secret) key.keep(secret);
} catch (error) {
  if (!(error instanceof Problem)) throw error;
  refusal = error;
}
show(refusal);
