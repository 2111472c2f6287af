// What leaves this device: every request of the page, and the last sketch as it was sent.

import { factList, h, picture, s, table } from "../base/dom.js";
import { frame, reach, scale } from "../chart/chart.js";
import { count, rounded, whole } from "../base/words.js";

const SHOWN = 8;
const HEIGHT = 120;

/** What an answer says of study or device, in JSON; nothing where it is something else. */
async function readAnswer(response) {
  if (!/json/.test(response.headers.get("Content-Type") ?? "")) return {};
  try {
    const { type, field, rule, state, accept_until } = await response.clone().json();
    return { type, field, rule, state, accept_until };
  } catch {
    // Whoever answered is no server of a study.
    return {};
  }
}

/** `fetch` that notes what it sends and what is answered; the device sends by it, and by nothing else. */
export function watchFetch(note) {
  return async (url, init) => {
    const { pathname } = new URL(url);
    const size = init.body ? (init.body.byteLength ?? new TextEncoder().encode(init.body).length) : 0;
    const request = { time: new Date(), method: init.method, path: pathname, size, status: null, said: {}, body: init.method === "PUT" ? init.body : null };
    try {
      const response = await fetch(url, init);
      request.status = response.status;
      request.said = await readAnswer(response);
      return response;
    } finally {
      // What had no answer may have arrived all the same.
      note(request);
    }
  };
}

/** Read the sums of waves at the end of a message: `width` bytes each, the least first; none of other sketches. */
export function readPayload(message, { payload_width: width, statistic, release }) {
  const n = statistic.kind === "fourier" && release.kind === "local.v1" ? 2 * statistic.frequencies_per_sketch : 0;
  // A secret number of readings comes after them, with noise.
  const nCounts = release.neighbouring === "add-remove-one" ? 1 : 0;
  const at = message.length - (n + nCounts) * width;
  if (!n || at < 0) return [];
  return Array.from({ length: n }, (_, i) => {
    const bytes = message.subarray(at + i * width, at + (i + 1) * width);
    let value = 0n;
    for (let j = width - 1; j >= 0; j--) value = (value << 8n) | BigInt(bytes[j]);
    return Number(BigInt.asIntN(8 * width, value));
  });
}

const WORDS = { POST: "enrolment: a public key, and your choices", PUT: "a sketch" };

const SUMMED = { fourier: "waves", histogram: "counts of values", clusters: "counts, distances and offsets around published centres" };

/** What a sketch holds, and what limits that it tells of one reading. */
function describeSketch({ release, statistic }) {
  if (release.kind === "phase.v1") return "The last sketch: an answer about the one reading of a window, changed by chance before it was stored. Epsilon limits what it tells of the reading.";
  const what = SUMMED[statistic.kind];
  if (release.unit === "device") return `The last sketch: the mean of ${what} over all readings of a window, with random noise added before it was stored. Epsilon limits what it tells of them.`;
  return `The last sketch: sums of ${what} over all readings of a window, with random noise added before it was stored. Epsilon limits what it tells of any one reading.`;
}

/** What the sketches so far tell together. */
function describeSpent({ release }, nReleased) {
  const each = Number(release.epsilon[0]) / Number(release.epsilon[1]);
  const all = rounded(each * nReleased);
  if (release.unit === "device") return `${rounded(each)} for all readings of one window; ${all} for those of all ${count(nReleased, "window")}`;
  return `${rounded(each)} for a reading, which is in one sketch; ${all} for ${count(nReleased, "reading")}, one in each sketch; more for more of them`;
}

/** How many sketches were sent, and what became of the others. */
function describeSketches({ sent, waiting, shelved }, waits) {
  return [whole(sent), waiting && `${whole(waiting)} ${waits}`, shelved && `${whole(shelved)} refused by the server`].filter(Boolean).join(", ");
}

/** The panel; `note` takes a request, `show` the state of the device, and why sketches wait. */
export function leavingPanel(plan) {
  const requests = [];
  let nBytes = 0;
  let nQuestions = 0;
  let last = null;
  const facts = h("div");
  const list = h("div");
  const bytes = h("pre", { class: "command bytes" });
  const bars = picture((width) => {
    const values = last ? readPayload(last, plan.fields) : [];
    const x = scale([0, Math.max(values.length, 1)], [0, width]);
    const y = scale(reach(values, { keep: [0] }), [HEIGHT - 4, 4]);
    const bar = (value, i) => s("rect", { class: "sent", x: x(i), width: Math.max(1, x(1) - x(0) - 1), y: Math.min(y(value), y(0)), height: Math.abs(y(value) - y(0)) });
    return frame(width, HEIGHT, "The numbers of the last sketch", values.map(bar), s("line", { class: "zero", x1: 0, x2: width, y1: y(0), y2: y(0) }));
  });
  const sketch = h(
    "figure",
    { hidden: true },
    plan.fields.statistic.kind === "fourier" && plan.fields.release.kind === "local.v1" && bars.canvas,
    h("figcaption", {}, describeSketch(plan.fields)),
    h("details", {}, h("summary", {}, "Its bytes, as they were sent"), bytes),
  );
  function note(request) {
    if (request.method === "GET") {
      nQuestions++;
      return;
    }
    requests.unshift(request);
    nBytes += request.size;
    if (request.body && request.status && request.status < 300) {
      last = request.body;
      bytes.textContent = Array.from(last, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
      sketch.hidden = false;
      bars.redraw();
    }
    const rows = requests.slice(0, SHOWN).map((one) => [one.time.toLocaleTimeString("en", { hour12: false }), WORDS[one.method] ?? one.method, whole(one.size), one.status ? String(one.status) : "none"]);
    list.replaceChildren(table("What was sent, newest first", ["Time", "What", "Bytes", "Answer"], rows, { numeric: [2, 3] }));
  }
  function show({ status, nReadings, waits }) {
    facts.replaceChildren(
      factList([
        ["Readings since you opened the page", `${whole(nReadings)} (sent as they are: none)`],
        ["Sketches sent", describeSketches(status, waits)],
        ["Bytes sent by this page", whole(nBytes)],
        ["Questions asked", `${whole(nQuestions)}: is the study open, is there a result? They name this device, and hold no reading`],
        status.released > 0 && ["Epsilon spent", describeSpent(plan.fields, status.released)],
      ].filter(Boolean)),
    );
  }
  return { node: h("section", { class: "card leaving" }, h("h2", {}, "What leaves this device"), facts, sketch, list), note, show };
}
