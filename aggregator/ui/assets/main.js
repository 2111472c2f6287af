// Router: show the view that the address names after the #, once there is a key.

import { Problem, key, tryKey } from "./api.js";
import { announce, h, problemBox } from "./dom.js";
import { showStudies } from "./studies.js";
import { showStudy } from "./study.js";

const main = document.getElementById("main");
const session = document.getElementById("session");
const STUDY = /^#studies\/([0-9a-f]{64})(?:\/(?:decodes|snapshots)\/([0-9a-f]{64}))?$/;
let leave = new AbortController();

function forget() {
  key.forget();
  history.replaceState(null, "", "/");
  show();
}

function showSession() {
  if (key.read() === null) {
    session.replaceChildren();
    return;
  }
  session.replaceChildren(
    h("button", { type: "button", onclick: show }, "Refresh"),
    h("button", { type: "button", onclick: forget }, "Forget the key"),
  );
}

function showDoor() {
  const signal = leave.signal;
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
  const place = h("div");
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
      h("p", {}, "See the studies, devices and decodes of this server. You need the key of an analyst or operator."),
      h(
        "form",
        { onsubmit: enter },
        h("label", { for: "key" }, h("span", {}, "API key")),
        h("div", { class: "buttons" }, input, h("button", { type: "submit", class: "main" }, "Show the studies")),
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
  input.focus();
}

async function show() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  showSession();
  if (key.read() === null) {
    document.title = "Sfumato";
    showDoor();
    return;
  }
  const [, study, result] = STUDY.exec(location.hash) ?? [];
  main.setAttribute("aria-busy", "true");
  let nodes;
  try {
    nodes = await (study ? showStudy(study, result, signal) : showStudies(signal));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
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

addEventListener("hashchange", () => {
  scrollTo(0, 0);
  show();
});
show();
