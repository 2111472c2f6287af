// A browser as a device of a study: look at it, take part, record, and see what leaves and what comes back.

import { Device, openIndexedDb, SketchError } from "../device/sfumato-device.js";
import { announce, factList, h, problemBox } from "../base/dom.js";
import { offerThemes } from "../base/theme.js";
import { count, duration, MECHANISMS, NEIGHBOURS, rounded, UNITS_PROTECTED, withUnit } from "../base/words.js";
import { leavingPanel, watchFetch } from "./leaving.js";
import { planePanel } from "./plane.js";
import { fileDrop, recorder } from "./sources.js";

const FLUSH_MS = 5000;
const PULL_MS = 15_000;
const LIMIT = "try/limit";

const main = document.getElementById("main");
/** All that was sent since the page was opened, also before there is a list of it. */
let sent = [];
const keep = (request) => sent.push(request);
let note = keep;
let store;
let device;
let stopAll = () => {};

/** Make the device, with the limit that its owner has agreed to: it is kept beside the device. */
async function openDevice(perRecord) {
  store ??= openIndexedDb();
  let limit = perRecord;
  await store.update([LIMIT], (values) => {
    limit ??= values[LIMIT];
    return perRecord ? { [LIMIT]: perRecord } : {};
  });
  device = new Device({ name: "try", store, limits: limit ? { perRecord: limit } : {}, fetch: watchFetch((request) => note(request)) });
}

/** Problems whose remedy is a programmer's, in words for whoever visits the page. */
const FOR_VISITORS = {
  secureSum: { field: "study", rule: "leaves the noise to two servers, and this page takes part only where it adds noise itself", fix: "take part with sfumato-agent" },
};

/** Show what went wrong, with the fix; other errors are faults of this page. */
function show(place, error) {
  if (!(error instanceof SketchError)) throw error;
  const { field, rule, fix } = FOR_VISITORS[error.field] ?? error;
  place.replaceChildren(problemBox({ title: "That did not work", field, rule, fix }));
}

/** The code after the #; it is taken out of the address, for it lets a device in. */
function takeCode() {
  const text = location.hash.slice(1);
  if (text) history.replaceState(null, "", location.pathname);
  try {
    return decodeURIComponent(text);
  } catch {
    // It is no code, as reading it will say.
    return text;
  }
}

const epsilonOf = ({ release }) => Number(release.epsilon[0]) / Number(release.epsilon[1]);

function describePlan({ fields }) {
  const { release, window: rule, dimensions } = fields;
  const epsilon = epsilonOf(fields);
  const odds = rounded(Math.exp(epsilon));
  return factList([
    ["It asks for", dimensions.map((dimension) => (dimension.levels ? `${dimension.name} (${dimension.levels.join(", ")})` : `${withUnit(dimension)}, ${dimension.lower} to ${dimension.upper}`)).join("; ")],
    ["A sketch leaves", rule.kind === "time" ? `every ${duration(rule.length_s)} with readings` : `after ${count(rule.length, "reading")}`],
    ["It protects", release.unit === "device" ? `${UNITS_PROTECTED.device}: it hides their values; their number is public` : `${UNITS_PROTECTED.record}: it ${NEIGHBOURS[release.neighbouring]}`],
    ["Epsilon", `${rounded(epsilon)} a sketch, by ${MECHANISMS[release.mechanism] ?? release.mechanism}. Whoever sees everything that is sent can change the odds of any guess about ${release.unit === "device" ? "the readings of one window" : "one of them"} by a factor of ${odds} at most.`],
    release.unit === "record" && ["What that is not", "A hiding of all your readings together: where many of them say the same, their sketches say it too."],
    release.unit === "device" && ["What that is not", "A hiding of all your windows together: where many of them say the same, their sketches say it too."],
  ].filter(Boolean));
}

function showDoor(problem = null) {
  const input = h("input", { type: "text", required: true, autocomplete: "off", autocapitalize: "characters", spellcheck: "false", placeholder: "SFUMATO:…" });
  const place = h("div");
  const submit = (event) => {
    event.preventDefault();
    showStudy(input.value.trim());
  };
  main.replaceChildren(
    h(
      "section",
      { class: "card door" },
      h("h1", { tabindex: "-1" }, "Make this browser a device"),
      h("p", {}, "Your readings stay here. The page adds them up, adds noise, and sends the sum: you see what leaves."),
      h("form", { onsubmit: submit }, h("label", { for: "code" }, h("span", {}, "Enrolment code")), h("div", { class: "buttons" }, input, h("button", { type: "submit", class: "main" }, "Look at the study"))),
      h("p", { class: "note" }, "Scan the QR code of the study's operator, or paste the line below it. Nothing is sent about you before you have seen what the study asks."),
      place,
    ),
  );
  input.id = "code";
  if (problem) show(place, problem);
  input.focus();
}

function showElsewhere(server, code) {
  const isWeb = /^https?:\/\/[^/]/.test(server);
  main.replaceChildren(
    h(
      "section",
      { class: "card door" },
      h("h1", { tabindex: "-1" }, "This code is of another server"),
      h("p", {}, isWeb ? "Nothing was sent there. Take part at its own page, if you trust it: " : "Its address is not one of the web: "),
      h("p", {}, isWeb ? h("a", { href: `${server}/try/#${encodeURIComponent(code)}` }, `${server}/try/`) : h("code", {}, server)),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => showDoor() }, "Use another code")),
    ),
  );
  main.querySelector("h1").focus();
}

/** Browsers compute signatures, and keep devices, on secure pages only. */
function showInsecure() {
  main.replaceChildren(
    h(
      "section",
      { class: "card door" },
      h("h1", { tabindex: "-1" }, "This page needs https"),
      h("p", {}, `A browser signs and stores a device only on a secure page, and this one came by plain http from ${location.host}. Nothing was sent.`),
      h("p", {}, "Ask the study's operator for an address that begins with https, or take part with sfumato-agent."),
    ),
  );
  main.querySelector("h1").focus();
}

/** Show what a study asks, before anything is stored or sent about this device. */
async function showStudy(code) {
  let study;
  try {
    if (!device) await openDevice();
    // This page may talk to its own server alone.
    const server = await device.findServer(code);
    if (server !== location.origin) return showElsewhere(server, code);
    study = await device.inspect(code);
  } catch (error) {
    if (error instanceof SketchError) showDoor(error);
    else throw error;
    return;
  }
  const { name, plan } = study;
  const place = h("div");
  const choices = plan.fields.labels.map(({ name: label, values }) => [label, h("select", {}, values.map((value) => h("option", { value }, value)))]);
  const enrol = async () => {
    place.replaceChildren();
    try {
      const labels = Object.fromEntries(choices.map(([label, select]) => [label, select.value]));
      const { problems } = await device.enrol(code, labels);
      await showDevice(problems);
      announce("This browser takes part.");
    } catch (error) {
      // This browser has taken part in another study: its owner may allow both.
      const limit = error.field === "limits.perRecord" && /perRecord: "([^"]+)"/.exec(error.fix)?.[1];
      if (!limit) return show(place, error);
      const agree = async () => {
        await openDevice(limit);
        await enrol();
      };
      place.replaceChildren(
        h(
          "div",
          { class: "problem", role: "alert" },
          h("h3", {}, "This browser was a device of another study"),
          h("p", {}, `A reading that is given to both, such as a file dropped twice, is protected by epsilon ${limit} then, and not by ${rounded(epsilonOf(plan.fields))} any more.`),
          h("div", { class: "buttons" }, h("button", { type: "button", onclick: agree }, `Take part, up to epsilon ${limit}`)),
        ),
      );
    }
  };
  main.replaceChildren(
    h(
      "section",
      { class: "card" },
      h("h1", { tabindex: "-1" }, name),
      h("p", {}, "This is what the study asks of a device. Nothing was sent about you so far."),
      describePlan(plan),
      choices.length > 0 && h("div", { class: "fields" }, choices.map(([label, select]) => h("label", {}, h("span", {}, label), select))),
      h("p", {}),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "main", onclick: enrol }, "Take part"), h("button", { type: "button", onclick: () => showDoor() }, "No, thanks")),
      place,
    ),
  );
  main.querySelector("h1").focus();
}

async function showDevice(problems = []) {
  stopAll();
  const kept = await device.loadResult().catch(() => undefined);
  const { plan } = device;
  const leaving = leavingPanel(plan);
  const plane = planePanel(plan, () => pull());
  note = (request) => {
    keep(request);
    leaving.note(request);
  };
  sent.forEach(leaving.note);
  let nReadings = 0;
  const told = h("div");
  // Apart from what sending says, which is renewed every few seconds.
  const untrusted = h("div");
  let refusal = "";
  const add = (records) => {
    for (const record of records) device.add(record);
    nReadings += records.length;
    plane.add(records);
  };
  const source = recorder(plan.fields.dimensions, add);
  let shown = problems;
  const tell = (texts) => {
    shown = texts;
    told.replaceChildren(...(shown.length ? [h("ul", { class: "warnings", "aria-label": "Warnings" }, shown.map((text) => h("li", {}, text)))] : []));
  };
  let isBusy = false;
  const depart = (problem) => {
    stopAll();
    note = keep;
    sent = [];
    showDoor(problem);
  };
  const flush = async () => {
    // One at a time: on a slow network the next would wait behind this one, and the one after it too.
    if (isBusy) return;
    isBusy = true;
    try {
      tell((await device.flush()).problems);
    } catch (error) {
      if (!(await device.status()).isEnrolled) return depart(new SketchError("config", "device", "has left the study, perhaps in another tab", "paste a code to take part again"));
      show(told, error);
    } finally {
      isBusy = false;
    }
    leaving.show({ status: await device.status(), nReadings });
  };
  const pull = async () => {
    try {
      if (plane.take(await device.pullResult())) announce("A new result has come.");
      refusal = "";
      untrusted.replaceChildren();
    } catch (error) {
      // The network comes back, and the last result goes on being shown. The same words are said once.
      if ((error instanceof SketchError && error.kind === "transport") || error.message === refusal) return;
      show(untrusted, error);
      refusal = error.message;
    }
  };
  const timers = [setInterval(flush, FLUSH_MS), setInterval(pull, PULL_MS)];
  stopAll = () => {
    timers.forEach(clearInterval);
    source.stop();
  };
  const leave = async () => {
    stopAll();
    try {
      await device.forget();
    } catch (error) {
      return show(told, error);
    }
    depart();
  };
  const spent = h(
    "section",
    { class: "card" },
    h("h2", {}, "The promise"),
    describePlan(plan),
    h("p", { class: "note" }, "Every reading is in one sketch or in none. What was released stays in the ledger of this browser, also after you leave."),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: leave }, "Leave the study and erase its data here")),
  );
  main.replaceChildren(
    h("h1", { tabindex: "-1" }, "This browser is a device"),
    told,
    untrusted,
    h("div", { class: "pair" }, h("section", { class: "card" }, h("h2", {}, "What stays here"), source.node, fileDrop(plan.fields.dimensions, add)), plane.node),
    h("div", { class: "pair" }, leaving.node, spent),
  );
  main.querySelector("h1").focus({ preventScroll: true });
  tell(problems);
  plane.take(kept);
  await flush();
  await pull();
}

async function begin() {
  stopAll();
  note = keep;
  const code = takeCode();
  if (!isSecureContext) return showInsecure();
  try {
    await openDevice();
    const { isEnrolled } = await device.status();
    if (isEnrolled) return await showDevice(code ? ["this browser takes part in a study already; leave it first to take part in another"] : []);
  } catch (error) {
    if (error instanceof SketchError) return showDoor(error);
    throw error;
  }
  return code ? showStudy(code) : showDoor();
}

document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault();
  (main.querySelector("h1") ?? main).focus();
});
offerThemes(document.getElementById("theme"));
addEventListener("hashchange", begin);
begin();
