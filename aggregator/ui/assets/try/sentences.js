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

/** Sentences by the code of an error, where those of its field, rule and fix are for programmers. */
const BY_CODE = {
  "no-answer": () => "The server does not answer. Check the network, and try again.",
  "too-many-requests": () => "The server has too much to do now. Try again in a minute.",
  "study-withdrawn": () => "The study was withdrawn by its operator, with all its data. Nobody can take part in it any more.",
  "not-found": () => "The server has no such study. Ask the study's operator for another code.",
  "other-study": () => "This browser takes part in another study, perhaps in another tab. Leave that study first; then take part in this one.",
  "enrolling-elsewhere": () => "Another tab of this browser is taking part right now. Close it, and try again.",
  "sketches-used-up": ({ rule }) => `The study ${rule}.`.replace("sketch(es)", "sketches"),
  "storage-closed": () => "The browser has closed this page's storage: its disk may be full, or this site's data were deleted. Reload the page.",
  "insecure-page": () => "A browser signs what it sends only on a secure page. Ask the study's operator for an address that begins with https.",
  "old-browser": () => "This browser cannot sign what it sends (it lacks Ed25519). Update it, or use another one.",
};

/** Sentences for some fields, where the code says less. */
const BY_FIELD = [
  [({ field, code }) => field === "code" && code === "version", () => "The code is of a newer version than this page. Reload the page, or ask the study's operator."],
  [({ field }) => field === "code", ({ rule }) => `The code ${rule}. Copy or scan the whole code again.`],
  [({ field, rule }) => field === "token" && rule.includes("of this study"), () => "The code is not one of this study. Ask the study's operator for another code."],
  [({ field, rule }) => field === "token" && rule.includes("used up"), () => "The code is used up: as many devices took part as it allows. Ask the study's operator for another code."],
  [({ field }) => field === "token", ({ rule }) => `The code ${rule}. Ask the study's operator for another code.`],
  [({ field, rule }) => field.startsWith("labels.") && rule.includes("this token"), ({ field, rule }) => `“${field.slice(7)}” ${rule.replace("this token", "this code")}. Choose that, or ask the study's operator for another code.`],
  [({ field, kind }) => field === "study" && kind === "plan", () => "The server sent another study than the one that the code names. Ask the study's operator; nothing was sent about you."],
  [({ field }) => field === "secureSum", () => "This study leaves the noise to two servers, and this page takes part only where it adds noise itself. Take part with sfumato-agent."],
  [({ field, kind }) => field === "store" && kind === "config", () => "This browser gives the page no storage. Leave private browsing, or use another browser."],
];

/** An error of the device or its server as sentences. */
export function sentenceOf(error) {
  const own = BY_CODE[error.code] ?? BY_FIELD.find(([holds]) => holds(error))?.[1];
  if (own) return own(error);
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
  const [, number, unit, order] = /^clock: this device is (\d+) (s|days) (ahead of|behind)/.exec(text) ?? [];
  if (number) {
    const seconds = Number(number) * (unit === "s" ? 1 : 86_400);
    return `The clock of this device is ${duration(seconds)} ${order} the server's. Set it, or tell the study's operator if it is right: until then no sketch is made by the clock.`;
  }
  if (text.startsWith("storage: ")) {
    return "The browser does not promise to keep this site's data, and in private browsing it never does. If it deletes them, this device is gone with its record of what was sent. Allow the site to keep data, or add this page to your home screen.";
  }
  const [, lost] = /^(\d+) record\(s\) are lost/.exec(text) ?? [];
  if (lost) return `${count(Number(lost), "reading is", "readings are")} lost, because none could be stored or sent.`;
  const [, refusal] = /^sketch \d+: (?:[a-z_. ]+: )?(.*)/.exec(text) ?? [];
  if (refusal) return ended(`The server refused a sketch: it ${refusal}`);
  return ended(capital(text.replace(/^[a-z_. ]+: /, "").replaceAll("(es)", "es")));
}
