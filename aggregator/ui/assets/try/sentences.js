// Problems in words for a visitor, who runs no command and calls no function.

import { SketchError } from "../device/sfumato-device.js";
import { h } from "../base/dom.js";
import { count, duration } from "../base/words.js";

export const AWAY = "The server does not answer. Your readings are kept here, and sketches are sent when it does: nothing is counted twice.";

const SUBJECTS = {
  clock: "The clock of this device",
  code: "The code",
  "crypto.getRandomValues": "The random generator of this browser",
  device: "This browser's device",
  outbox: "The list of sketches that wait",
  server: "The server",
  store: "The storage of this browser",
  study: "The study",
  study_id: "The study",
};

const capital = (text) => text && text[0].toUpperCase() + text.slice(1);
const ended = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

/** Sentences that differ from field, rule and fix; the first whose condition holds. */
const OWN = [
  [({ kind, slug }) => kind === "transport" && !slug, () => "The server does not answer. Check the network, and try again."],
  [({ kind, slug }) => kind === "transport" && slug, () => "The server has too much to do now. Try again in a minute."],
  [({ slug }) => slug === "study-withdrawn", () => "The study was withdrawn by its operator, with all its data. Nobody can take part in it any more."],
  [({ slug }) => slug === "not-found", () => "The server has no such study. Ask the study's operator for another code."],
  [({ kind, field }) => kind === "version" && field === "code", () => "The code is of a newer version than this page. Reload the page, or ask the study's operator."],
  [({ kind, field }) => kind === "malformed" && field === "code", ({ rule }) => `The code ${rule}. Copy or scan the whole code again.`],
  [({ kind, field }) => kind === "config" && field === "code", () => "This browser takes part in another study, perhaps in another tab. Leave that study first; then take part in this one."],
  [({ kind, field, rule }) => kind === "config" && field === "device" && rule.includes("another tab"), () => "Another tab of this browser is taking part right now. Close it, and try again."],
  [({ field, rule }) => field === "token" && rule.includes("of this study"), () => "The code is not one of this study. Ask the study's operator for another code."],
  [({ field, rule }) => field === "token" && rule.includes("used up"), () => "The code is used up: as many devices took part as it allows. Ask the study's operator for another code."],
  [({ field }) => field === "token", ({ rule }) => `The code ${rule}. Ask the study's operator for another code.`],
  [({ field, rule }) => field.startsWith("labels.") && rule.includes("this token"), ({ field, rule }) => `“${field.slice(7)}” ${rule.replace("this token", "this code")}. Choose that, or ask the study's operator for another code.`],
  [({ kind, field }) => kind === "plan" && field === "study", () => "The server sent another study than the one that the code names. Ask the study's operator; nothing was sent about you."],
  [({ field }) => field === "secureSum", () => "This study leaves the noise to two servers, and this page takes part only where it adds noise itself. Take part with sfumato-agent."],
  [({ field }) => field === "crypto.subtle", () => "This browser cannot sign what it sends (it lacks Ed25519). Update it, or use another one."],
  [({ kind, field }) => kind === "config" && field === "store", () => "This browser gives the page no storage. Leave private browsing, or use another browser."],
  [({ kind, fix }) => kind === "store" && fix.includes("private browsing"), ({ rule }) => `The storage of this browser ${rule}. Leave private browsing, or allow this site to store data.`],
  [({ field }) => field === "most_sketches_per_device", ({ rule }) => `The study ${rule}.`.replace("sketch(es)", "sketches")],
];

/** An error of the device or its server as sentences. */
export function sentenceOf(error) {
  const own = OWN.find(([holds]) => holds(error));
  if (own) return own[1](error);
  const subject = SUBJECTS[error.field] ?? `“${error.field}”`;
  return `${subject} ${ended(error.rule)} ${ended(capital(error.fix))}`;
}

/** A box that says what went wrong. */
export function problemSaid(title, text) {
  return h("div", { class: "problem", role: "alert" }, h("h3", {}, title), h("p", {}, text));
}

/** Show what went wrong; other errors are faults of this page. */
export function show(place, error) {
  if (!(error instanceof SketchError)) throw error;
  place.replaceChildren(problemSaid("That did not work", sentenceOf(error)));
}

/** What the device reports to its owner, with the name of a field before it, as a sentence. */
export function reported(text) {
  const [, seconds, order] = /^clock: .* (\d+) s (ahead of|behind) the server/.exec(text) ?? [];
  if (seconds) return `The clock of this device is ${duration(Number(seconds))} ${order} the server's. Set it, or tell the study's operator if it is right: until then no sketch is made by the clock.`;
  if (text.startsWith("storage: ")) {
    return "The browser does not promise to keep this site's data, and in private browsing it never does. If it deletes them, this device is gone with its record of what was sent. Allow the site to keep data, or add this page to your home screen.";
  }
  const [, lost] = /^(\d+) record\(s\) were not taken/.exec(text) ?? [];
  if (lost) return `${capital(count(Number(lost), "reading was", "readings were"))} not taken, because none could be stored.`;
  const [, refusal] = /^sketch \d+: (?:[a-z_. ]+: )?(.*)/.exec(text) ?? [];
  if (refusal) return ended(`The server refused a sketch: it ${refusal}`);
  return ended(capital(text.replace(/^[a-z_. ]+: /, "").replaceAll("(es)", "es")));
}
