// Which view is shown: that of the address behind the #, once there is a key.

import { Problem, key, tryKey } from "./api.js";
import { announce, h, problemBox } from "./dom.js";
import { showStudies } from "./studies.js";
import { showStudy } from "./study.js";

const main = document.getElementById("main");
const session = document.getElementById("session");
const STUDY = /^#studies\/([0-9a-f]{64})(?:\/decodes\/([0-9a-f]{64}))?$/;
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
  // Without a name, so that no submission of the browser's own could carry it.
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
      h("p", {}, "Studies, devices and decodes of this server, for whoever holds a key of an analyst or operator."),
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
        "The key stays in this tab until you forget it or close the tab. It is sent to this server alone, in a header. ",
        h("code", {}, "sfumato key create --scope analyst"),
        " makes one.",
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
  const [, study, decode] = STUDY.exec(location.hash) ?? [];
  main.setAttribute("aria-busy", "true");
  let nodes;
  try {
    nodes = await (study ? showStudy(study, decode, signal) : showStudies(signal));
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
