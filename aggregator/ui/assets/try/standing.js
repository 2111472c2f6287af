// Whether this device takes part still, by what its server answers, and what is to be done if not.

import { h } from "../base/dom.js";
import { count } from "../base/words.js";

const LEAVE = "Leave the study to erase its data here.";
const UNUSED = "Readings that are in no sketch yet are never sent.";

/** Ends that nothing lifts, so that the server need not be asked again. */
const FINAL = new Set(["withdrawn", "revoked", "unknown", "suspended"]);

const ENDS = {
  closed: ({ acceptUntil }) => [
    "The study is closed",
    "It takes no more readings, so the recording has stopped and no more sketches are made.",
    acceptUntil && `Sketches that were made before are still sent until ${acceptUntil.toLocaleString("en", { hour12: false, dateStyle: "medium", timeStyle: "short" })}.`,
    "Readings that are in no sketch yet stay here, and are used only if the study opens again. Leaving the study erases them.",
  ],
  withdrawn: () => ["The study was withdrawn", "Its operator has deleted it with all that it held. The recording has stopped, and nothing more leaves this browser.", UNUSED, LEAVE],
  revoked: () => [
    "The operator has revoked this device",
    "The recording has stopped, and the study takes nothing more from this browser. What it took before stays in the study.",
    UNUSED,
    `Ask the study's operator for the reason. ${LEAVE} Another code lets this browser take part again.`,
  ],
  unknown: () => ["The server does not know this device", "The recording has stopped, and nothing more leaves this browser.", UNUSED, `Ask the study's operator for the reason. ${LEAVE} Another code lets this browser take part again.`],
  excluded: () => [
    "The operator has excluded this device",
    "The recording has stopped. The study counts no sketch of this browser any more, and takes no other.",
    UNUSED,
    `Ask the study's operator for the reason. ${LEAVE}`,
  ],
  full: () => ["The study is full", "It holds as many sketches as its plan allows. The recording has stopped, so that no more is given away for nothing.", UNUSED, "You may stay to see its results, or leave it to erase its data here."],
  spent: ({ most }) => [
    "This browser has sent all that it may",
    `The study allows ${count(most, "sketch", "sketches")} of a device, and all of them were made. The recording has stopped.`,
    UNUSED,
    "You may stay to see the study's results, or leave it to erase its data here.",
  ],
  budget: ({ rule }) => {
    const [, limit, loss] = /^is ([\d/]+), .* epsilon ([\d/]+) /.exec(rule);
    return [
      "The limit of this browser is reached",
      `A reading may cost epsilon ${limit} at most over all studies, and one more sketch would make it ${loss}. The recording has stopped.`,
      UNUSED,
      LEAVE,
    ];
  },
  suspended: () => [
    "This device has stopped itself",
    "The server holds sketches that this browser never sent: its data were copied or put back from a backup. The recording has stopped, and nothing more leaves this browser.",
    UNUSED,
    `${LEAVE} Another code lets this browser take part again.`,
  ],
};

/** What waits in the outbox waits for this. */
const WAITS = {
  closed: ({ acceptUntil }) => (acceptUntil > new Date() ? "wait to be sent" : "wait until the study opens again"),
  spent: () => "wait to be sent",
  budget: () => "wait to be sent",
};

/** Keeps what the answers to one device say of its study; `note` takes each request with its answer. */
export class Standing {
  #state = "open";
  #acceptUntil = null;
  /** An end that the state of the study does not tell. */
  #found = null;
  /** The rule of the owner's budget that a release would have broken. */
  #rule = "";

  get isOpen() {
    return this.#state === "open";
  }

  note({ method, said }) {
    const { type = "", field, rule = "", state } = said;
    if (type.endsWith("/study-withdrawn")) this.#state = "withdrawn";
    else if (state === "open" || state === "closed") {
      this.#state = state;
      this.#acceptUntil = said.accept_until ? new Date(said.accept_until) : null;
    }
    if (type.endsWith("/access-denied") && field === "device") this.#found ??= rule.includes("excluded") ? "excluded" : rule.includes("revoked") ? "revoked" : "unknown";
    if (method === "PUT" && type.endsWith("/study-closed") && field === "most_sketches") this.#found ??= "full";
  }

  /** Why the device takes part no more, after an attempt to send; null while it does. */
  find(plan, { released, suspended }, error) {
    const most = plan.fields.most_sketches_per_device;
    if (suspended) this.#found ??= "suspended";
    else if (released >= most || error?.code === "sketches-used-up") this.#found ??= "spent";
    else if (error?.kind === "budget") {
      this.#found ??= "budget";
      this.#rule = error.rule;
    }
    const name = this.#state === "withdrawn" ? "withdrawn" : (this.#found ?? (this.#state === "closed" ? "closed" : null));
    if (!name) return null;
    const about = { acceptUntil: this.#acceptUntil, most, rule: this.#rule };
    const [title, ...texts] = ENDS[name](about);
    return { name, title, texts: texts.filter(Boolean), isFinal: FINAL.has(name), waits: (WAITS[name] ?? (() => "are not taken any more"))(about) };
  }
}

/** A box that says why the device takes part no more. */
export function endBox({ title, texts }) {
  return h("section", { class: "ended", role: "alert" }, h("h2", {}, title), texts.map((text) => h("p", {}, text)));
}
