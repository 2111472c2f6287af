// An operator's actions on a study: open or close it, and let devices enrol.

import { Problem, request } from "../base/api.js";
import { announce, h, identity, named, problemBox, s, table } from "../base/dom.js";
import { listing } from "../base/listing.js";
import { stateOf, utc, whole } from "../base/words.js";
import { pill } from "../studies/list.js";
import { field } from "./selection.js";

const MODULE = 5;
const QUIET = 4;

async function attempt(place, signal, act) {
  try {
    await act();
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    place.replaceChildren(problemBox(error));
  }
}

function statePanel(study, isSummed, signal) {
  const place = h("div");
  const body = h("div");
  function draw(now) {
    const closes = now.state === "open";
    const until = h("input", { type: "datetime-local" });
    const button = h("button", { type: "submit" }, closes ? "Close the study" : "Open the study again");
    const submit = (event) => {
      event.preventDefault();
      place.replaceChildren();
      attempt(place, signal, async () => {
        const change = closes ? { state: "closed", accept_until: until.value ? `${until.value}:00Z` : null } : { state: "open" };
        draw(await request(`/v1/studies/${now.study_id}`, { method: "PATCH", body: change, headers: { "If-Match": "*" }, signal }));
        announce(closes ? "The study is closed." : "The study is open.");
      });
    };
    body.replaceChildren(
      h("p", {}, "The study is ", pill(now.state, stateOf(now)), "."),
      h("p", { class: "note" }, closes ? "A closed study takes no sketches and no devices, apart from late sketches until the time below. It can be opened again, and decodes stay possible." : "An open study takes devices and sketches."),
      closes && isSummed ? h("p", { class: "note" }, "Batches with too few reports are dropped unread then, for good: at once if the time is empty. Their owners have paid for them.") : "",
      h("form", { onsubmit: submit }, closes && h("div", { class: "fields" }, field("Accept late sketches until (UTC)", until, "may be empty")), h("div", { class: "buttons" }, button)),
    );
  }
  draw(study);
  return h("section", { class: "card" }, h("h2", {}, "State"), body, place);
}

/** A QR code from the path that the server computed; dark on light in every theme, as scanners expect. */
function drawCode({ size, path }) {
  const whole = size + 2 * QUIET;
  return s(
    "svg",
    { class: "qr", viewBox: `0 0 ${whole} ${whole}`, width: MODULE * whole, height: MODULE * whole, role: "img", "aria-label": "QR code of the enrolment code" },
    s("rect", { class: "light", width: whole, height: whole }),
    s("path", { class: "dark", d: path, transform: `translate(${QUIET} ${QUIET})` }),
  );
}

function showToken(made) {
  const copied = h("span", { role: "status" });
  const copy = async () => {
    await navigator.clipboard.writeText(made.code).then(
      () => copied.replaceChildren(" Copied."),
      () => copied.replaceChildren(" The browser refuses; select the text instead."),
    );
  };
  return h(
    "div",
    { class: "code" },
    h("figure", { class: "plot" }, drawCode(made.qr)),
    h(
      "div",
      {},
      h("p", {}, h("strong", {}, "Shown this once. "), `It enrols ${made.max_uses === 1 ? "one device" : `up to ${whole(made.max_uses)} devices`} until ${utc(new Date(made.expires))}. Treat it as a password.`),
      h("p", {}, "On the device:"),
      h("pre", { class: "command" }, `sfumato-agent init --code ${made.code}`),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: copy }, "Copy the code"), copied),
      h("p", {}, "Or take part with a browser, whose readings stay in it: ", h("a", { href: made.page, target: "_blank", rel: "noopener" }, "open this page as a device"), "."),
    ),
  );
}

function renderTokens(revoke) {
  return (tokens) => {
    if (!tokens.length) return h("p", { class: "empty" }, "No token was created yet.");
    const rows = tokens.map((token) => [
      identity(token.token_id),
      pill(token.state),
      `${whole(token.uses_left)} of ${whole(token.max_uses)}`,
      utc(new Date(token.expires)),
      Object.entries(token.labels ?? {}).map(([name, value]) => h("span", { class: "tag" }, named(name), " ", named(value))),
      token.state === "usable" ? h("button", { type: "button", class: "small", onclick: () => revoke(token) }, "Revoke") : "",
    ]);
    return table("Enrolment tokens", ["Token", "State", "Uses left", "Expires", "Labels", "Action"], rows, { numeric: [2], stacks: true });
  };
}

function tokenPanel(study, plan, signal) {
  const uses = h("input", { type: "number", min: "1", max: "1000000", value: "1", required: true, inputmode: "numeric" });
  const server = h("input", { type: "url", value: location.origin, required: true, autocomplete: "off", spellcheck: "false" });
  const labels = plan.labels.map((label) => [
    label.name,
    h("select", {}, h("option", { value: "" }, "the device chooses"), label.values.map((value) => h("option", { value: `=${value}` }, value))),
  ]);
  const place = h("div", { class: "result" });
  const problems = h("div");
  const list = h("div");
  const isLocal = /^(localhost|127\.|\[::1\])/.test(location.hostname);

  const load = () => attempt(problems, signal, async () => list.replaceChildren(await listing(`/v1/studies/${study.study_id}/tokens`, { render: renderTokens(revoke), noun: "token", signal })));
  const revoke = (token) =>
    attempt(problems, signal, async () => {
      await request(`/v1/tokens/${token.token_id}`, { method: "DELETE", signal });
      await load();
    });
  function submit(event) {
    event.preventDefault();
    place.replaceChildren();
    problems.replaceChildren();
    attempt(place, signal, async () => {
      const chosen = labels.filter(([, select]) => select.value).map(([name, { value }]) => [name, value.slice(1)]);
      const body = { max_uses: Number(uses.value), labels: chosen.length ? Object.fromEntries(chosen) : null, server: server.value.trim() };
      place.replaceChildren(showToken(await request(`/v1/studies/${study.study_id}/tokens`, { method: "POST", body, signal })));
      announce("The token is created.");
      await load();
    });
  }
  load();
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Let devices enrol"),
    h(
      "form",
      { onsubmit: submit },
      h(
        "div",
        { class: "fields" },
        field("Devices", uses, "how many may use the code"),
        field("Address of this server", server, isLocal ? "devices elsewhere do not reach this one" : "as devices reach it"),
        labels.map(([name, select]) => field(name, select)),
      ),
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Create an enrolment code")),
    ),
    place,
    problems,
    h("details", {}, h("summary", {}, "Tokens of this study"), list),
  );
}

/** The cards of an operator's actions. */
export function managePanel({ study, plan: { plan }, signal }) {
  return [
    tokenPanel(study, plan, signal),
    statePanel(study, plan.release.kind === "sum.v1", signal),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Elsewhere"),
      h("p", {}, "Devices are excluded and revoked under ", h("a", { href: `#studies/${study.study_id}/devices` }, "Devices"), ". To withdraw the study for good, use ", h("code", {}, "sfumato study delete STUDY"), ". What decodes of other studies have taken over from a second look stays in them."),
    ),
  ];
}
