// A browser as a device of a study: look at it, take part, record, and see what leaves and what comes back.

import { Device, openIndexedDb, SketchError } from "../device/sfumato-device.js";
import { announce, factList, h, warningList } from "../base/dom.js";
import { offerThemes } from "../base/theme.js";
import { count, duration, MECHANISMS, NEIGHBOURS, rounded, UNITS_PROTECTED, withUnit } from "../base/words.js";
import { leavingPanel, watchFetch } from "./leaving.js";
import { planePanel } from "./plane.js";
import { AWAY, problemSaid, reported, sentenceOf, show } from "./sentences.js";
import { fileDrop, recorder } from "./sources.js";
import { endBox, Standing } from "./standing.js";

const FLUSH_MS = 5000;
const PULL_MS = 15_000;
const LIMIT = "try/limit";
/** The name of the study that this browser takes part in; empty after leaving, nothing where data were erased. */
const STUDY = "try/study";

const main = document.getElementById("main");
/** All that was sent since the page was opened, also before there is a list of it. */
let sent = [];
const keep = (request) => sent.push(request);
let note = keep;
let store;
let device;
let standing = new Standing();
let stopAll = () => {};

const watched = watchFetch((request) => {
  standing.note(request);
  note(request);
});

/** Make the device, with the limit that its owner has agreed to: it is kept beside the device. */
async function openDevice(perRecord) {
  store ??= openIndexedDb();
  let limit = perRecord;
  await store.update([LIMIT], (values) => {
    limit ??= values[LIMIT];
    return perRecord ? { [LIMIT]: perRecord } : {};
  });
  device = new Device({ name: "try", store, limits: limit ? { perRecord: limit } : {}, fetch: watched });
}

async function readName() {
  let name;
  await store.update([STUDY], (values) => {
    name = values[STUDY];
    return {};
  });
  return name;
}

const keepName = (name) => store.update([STUDY], () => ({ [STUDY]: name }));

/** Say what a code does that is scanned where this browser takes part already; nobody is asked. */
async function describeCode(code) {
  const fetch = () => Promise.reject(new TypeError("nobody is asked"));
  try {
    // A device that has enrolled compares the code; where it has left meanwhile, it cannot enrol by this.
    await new Device({ name: "try", store, fetch }).enrol(code);
    return h("p", { role: "status" }, "You scanned the code of this study: this browser takes part in it already.");
  } catch (error) {
    if (!(error instanceof SketchError)) throw error;
    return warningList([error.code === "other-study" ? "The code that you scanned is of another study. Leave this one first, then scan it again." : sentenceOf(error)], "Notices");
  }
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

function showDoor(problem = null, title = "That did not work") {
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
  if (problem) place.replaceChildren(problemSaid(title, problem));
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

/** Show a study that takes no devices, before anybody tries. */
function showClosed(name, plan) {
  main.replaceChildren(
    h(
      "section",
      { class: "card" },
      h("h1", { tabindex: "-1" }, name),
      h("p", { class: "ended" }, "This study is closed: it takes no more devices. Nothing was sent about you. Ask the study's operator whether it opens again."),
      h("p", {}, "This is what it asks of a device."),
      describePlan(plan),
      h("p", {}),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => showDoor() }, "Use another code")),
    ),
  );
  main.querySelector("h1").focus();
}

/** Show what a study asks, before anything is stored or sent about this device. */
async function showStudy(code) {
  let study;
  standing = new Standing();
  try {
    if (!device) await openDevice();
    // This page may talk to its own server alone.
    const server = await device.findServer(code);
    if (server !== location.origin) return showElsewhere(server, code);
    study = await device.inspect(code);
  } catch (error) {
    if (error instanceof SketchError) showDoor(sentenceOf(error));
    else throw error;
    return;
  }
  const { name, plan } = study;
  if (!standing.isOpen) return showClosed(name, plan);
  const place = h("div");
  const choices = plan.fields.labels.map(({ name: label, values }) => [label, h("select", {}, values.map((value) => h("option", { value }, value)))]);
  const enrol = async () => {
    place.replaceChildren();
    try {
      const labels = Object.fromEntries(choices.map(([label, select]) => [label, select.value]));
      const { problems } = await device.enrol(code, labels);
      await keepName(name);
      await showDevice(warningList(problems.map(reported), "Notices"));
      announce("This browser takes part.");
    } catch (error) {
      // It was closed while its visitor read.
      if (error.code === "study-closed") return showClosed(name, plan);
      // This browser has taken part in another study: its owner may allow both.
      const limit = error.code === "limit-reached" && /perRecord: "([^"]+)"/.exec(error.fix)?.[1];
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

/** Show the device; a notice is given once, and stays. */
async function showDevice(notice = false) {
  stopAll();
  standing = new Standing();
  const kept = await device.loadResult().catch(() => undefined);
  const name = await readName();
  const { plan } = device;
  const leaving = leavingPanel(plan);
  const plane = planePanel(plan, () => pull());
  note = (request) => {
    keep(request);
    leaving.note(request);
  };
  sent.forEach(leaving.note);
  let nReadings = 0;
  // Apart from the others, for it is renewed every few seconds.
  const told = h("div");
  const ended = h("div");
  const untrusted = h("div");
  let refusal = "";
  let end = null;
  let isOver = false;
  const add = (records) => {
    for (const record of records) device.add(record);
    nReadings += records.length;
    plane.add(records);
  };
  const addStored = async (records) => {
    // Before it, the device releases no window, and a file may fill many.
    await begun;
    if (isOver || end) return false;
    try {
      add(records);
      await device.save();
    } catch (error) {
      if (!(error instanceof SketchError)) throw error;
      if (isOver) return false;
      showEnd(standing.find(plan, await device.status(), error));
      if (!end) show(told, error);
      return false;
    }
    return true;
  };
  const source = recorder(plan.fields.dimensions, add);
  const sources = h("fieldset", { class: "bare" }, source.node, fileDrop(plan.fields.dimensions, addStored));
  const tell = (texts) => told.replaceChildren(...[warningList(texts)].filter(Boolean));
  let isBusy = false;
  const depart = (problem, title) => {
    stopAll();
    note = keep;
    sent = [];
    showDoor(problem, title);
  };
  const departUnasked = async () => {
    const wasErased = (await readName()) === undefined;
    // Whoever left in this tab meanwhile was shown the door already.
    if (isOver) return;
    if (wasErased) depart("The browser has erased this site's data, and this device with them: readings that were in no sketch, and its record of what was sent. What was sent stays in the study. Paste a code to take part again; in private browsing, data never last.", "This device is gone");
    else depart("It was left in another tab of this browser, and its data here are erased. Paste a code to take part again.", "This browser has left the study");
  };
  const showEnd = (found) => {
    if (found?.name === end?.name) return;
    end = found;
    sources.disabled = Boolean(end);
    if (end) source.stop();
    ended.replaceChildren(...(end ? [endBox(end)] : []));
    // What a pull was refused for before this was known; the box says why.
    if (end) untrusted.replaceChildren();
    if (!end) announce("The study is open again. You can record.");
    if (end?.isFinal) timers.forEach(clearInterval);
  };
  const flush = async () => {
    // One at a time: on a slow network the next would wait behind this one, and the one after it too.
    if (isBusy || isOver) return;
    isBusy = true;
    let problems = [];
    let failure = null;
    try {
      ({ problems } = await device.flush());
    } catch (error) {
      failure = error;
    } finally {
      isBusy = false;
    }
    const status = await device.status();
    if (isOver) return;
    if (!status.isEnrolled) return departUnasked();
    showEnd(standing.find(plan, status, failure));
    const isAway = problems.some((text) => /^(sketch \d+: )?server: /.test(text));
    // The box of the end says why sketches are refused, and the state of the study; this save has made good an earlier one.
    const said = problems.filter((text) => !/^(sketch \d+: )?server: |^the study is |^a save /.test(text) && !(end && text.startsWith("sketch "))).map(reported);
    if (failure && !end) show(told, failure);
    else tell(isAway ? [AWAY, ...said] : said);
    leaving.show({ status, nReadings, waits: end?.waits ?? (isAway ? "wait for the network" : "wait to be sent") });
  };
  const pull = async () => {
    try {
      if (plane.take(await device.pullResult())) announce("A new result has come.");
      refusal = "";
      untrusted.replaceChildren();
    } catch (error) {
      // The network comes back, and the last result goes on being shown. The same words are said once.
      if (isOver || end || (error instanceof SketchError && error.kind === "transport") || error.message === refusal) return;
      show(untrusted, error);
      refusal = error.message;
    }
  };
  const timers = [setInterval(flush, FLUSH_MS), setInterval(pull, PULL_MS)];
  addEventListener("online", flush);
  stopAll = () => {
    isOver = true;
    timers.forEach(clearInterval);
    removeEventListener("online", flush);
    source.stop();
  };
  const leave = async () => {
    stopAll();
    try {
      await keepName("");
      await device.forget();
    } catch (error) {
      if (!(error instanceof SketchError)) throw error;
      return showDevice(warningList([sentenceOf(error)], "Notices"));
    }
    depart();
  };
  const promise = h(
    "section",
    { class: "card" },
    h("h2", {}, "The promise"),
    describePlan(plan),
    h("p", { class: "note" }, "Every reading is in one sketch or in none. What was released stays in the ledger of this browser, also after you leave."),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: leave }, "Leave the study and erase its data here")),
  );
  main.replaceChildren(
    h("h1", { tabindex: "-1" }, name || "This browser is a device"),
    name ? h("p", {}, "This browser is a device of the study.") : "",
    h("div", { class: "noticed" }, notice),
    ended,
    told,
    untrusted,
    h("div", { class: "pair" }, h("section", { class: "card" }, h("h2", {}, "What stays here"), sources), plane.node),
    h("div", { class: "pair" }, leaving.node, promise),
  );
  main.querySelector("h1").focus({ preventScroll: true });
  plane.take(kept);
  const begun = flush();
  await begun;
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
    if (isEnrolled) return await showDevice(code && (await describeCode(code)));
  } catch (error) {
    if (error instanceof SketchError) return showDoor(sentenceOf(error));
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
