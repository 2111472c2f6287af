// Devices whose sketches differ from the rest, for operators.

import { h, identity, named, picture, table } from "../base/dom.js";
import { downloadButtons } from "../base/downloads.js";
import { chance, count, fixed, share, whole } from "../base/words.js";
import { drawBars } from "../chart/bars.js";
import { when } from "../studies/list.js";
import { field, layOutSelection, makeSelectionControls, readSelection } from "../study/selection.js";
import { describeMoves } from "./changes.js";
import { analysisPanel, caveatsOf, clustersInput, showWords } from "./job.js";

const MOST_DRAWN = 12;
const MOST_ROWS = 200;
// The page says it above, with the names.
const REPEATED = /^(\d+ of \d+ devices|no device)/;
const LAMPS = {
  content: ["differs", "Its records differ from the rest, in no single quantity that can be named"],
  silence: ["too little noise", "It carries less noise than the plan demands"],
  unusual: ["unusual", "It differs more than its peers do"],
};

const litOf = ({ lamps }) => Object.entries(LAMPS).filter(([name]) => lamps[name]);

/** What stands out of a device, in the units of the columns: from the rest to it. */
function describeLamps(device, result) {
  const moves = device.lamps.content ? describeMoves(device.changes, result) : [];
  return litOf(device).flatMap(([name, [, words]]) => (name === "content" && moves.length ? moves : [words]));
}

function showLamps(device, result) {
  const lit = litOf(device);
  if (!lit.length) return h("span", { class: "note" }, device.size === null ? "not looked at" : "nothing that noise does not explain");
  return [
    lit.map(([name, [text]]) => [h("span", { class: `pill lamp ${name}` }, text), " "]),
    h("ul", { class: "plain" }, describeLamps(device, result).map((text) => h("li", {}, text))),
  ];
}

/** A size never stands without its error: 0.37 may be noise, and 0.00 may hide a difference. */
const sizeOf = ({ size, size_error: error }) => `${fixed(size, 2)} ± ${fixed(error, 2)}`;

const wordsOf = ({ name, labels }) => name ?? Object.values(labels).join(", ");

/** Short words on a device; where others have the same, with the first digits of its identity. */
function nameOf(device, devices) {
  const words = wordsOf(device);
  const isShared = devices.some((other) => other !== device && wordsOf(other) === words);
  return words && !isShared ? words : `${words} ${device.device_id.slice(0, 8)}`.trim();
}

/** Which devices stand out, and in what; the caveats last. */
function describeDevices({ devices, ...result }) {
  const lit = devices.filter((each) => litOf(each).length);
  if (!lit.length) return [`None of ${count(devices.length, "device")} stands out`, ...caveatsOf(result).filter((text) => !REPEATED.test(text))];
  const told = lit.slice(0, MOST_DRAWN).map((each) => `${nameOf(each, devices)}: ${describeLamps(each, { devices, ...result }).map((text) => text[0].toLowerCase() + text.slice(1)).join("; ")}`);
  return [`${whole(lit.length)} of ${count(devices.length, "device")} ${lit.length === 1 ? "stands" : "stand"} out`, ...told, ...caveatsOf(result).filter((text) => !REPEATED.test(text))];
}

function show({ result }) {
  const { devices, n_dropped: dropped } = result;
  if (!devices.length) return [showWords(result.words), h("p", { class: "empty" }, "No sketch of this selection is kept, so no device can be looked at.")];
  const sized = devices.filter(({ size }) => size !== null).slice(0, MOST_DRAWN);
  const bars = sized.map((each) => ({
    name: nameOf(each, sized),
    value: each.size,
    band: [Math.max(0, each.size - each.size_error), each.size + each.size_error],
    text: each.p_content === null ? sizeOf(each) : `${sizeOf(each)}, chance ${chance(each.p_content)}`,
    unsure: !litOf(each).length,
  }));
  const high = Math.max(...bars.map(({ value }) => value), 0.1);
  const figures = h("div", {}, bars.length > 0 && picture((width) => drawBars(bars, width, { high, label: "Difference of devices from the rest, each with its error" })).canvas);
  const rows = devices.slice(0, MOST_ROWS).map((each) => [
    [each.name && [h("strong", {}, named(each.name)), " "], Object.entries(each.labels).map(([name, value]) => [h("span", { class: "tag" }, named(name), " ", named(value)), " "]), identity(each.device_id)],
    showLamps(each, result),
    each.p_content === null ? "–" : chance(each.p_content),
    whole(each.n_sketches),
    share(each.share, 2),
    when(each.last_seen),
  ]);
  const heads = ["Device", "What stands out, from the rest to it", "Chance", "Sketches", "Share of records", "Last seen"];
  const fields = ["device_id", "name", "n_sketches", "n_records", "share", "p_content", "p_silence", "z", "size", "size_error", "words", "snr", "last_seen"];
  return [
    showWords(describeDevices(result), devices.some((each) => litOf(each).length) ? "bad" : "good"),
    table("Health of the devices", heads, rows, { numeric: [2, 3, 4], stacks: true }),
    devices.length > MOST_ROWS && h("p", { class: "note" }, `The first ${MOST_ROWS} of ${count(devices.length, "device")} are listed; the files below have all.`),
    dropped > 0 && h("p", { class: "note" }, `${count(dropped, "sketch", "sketches")} could not be looked at, because retention dropped their payloads.`),
    bars.length > 0 && h("details", {}, h("summary", {}, "How far each is from the rest"), figures, h("p", { class: "note" }, "By how many of the plan's scales all its records would have to move to look like this.")),
    downloadButtons("devices", { data: () => result, rows: () => [fields, ...devices.map((each) => fields.map((name) => each[name]))] }),
  ];
}

/** The card of the devices' health. */
export function healthPanel(context) {
  const { plan: { plan }, query } = context;
  const k = clustersInput(plan, query);
  const controls = makeSelectionControls({ ...plan, labels: [] });
  return analysisPanel({
    context,
    kind: "devices",
    section: "devices",
    title: "Devices that differ",
    verb: "Look at the devices",
    again: "Look at the devices again",
    lead: "Each device is compared with the rest, and its noise with what the plan demands.",
    fields: h("div", { class: "fields" }, field("Clusters k", k), layOutSelection(controls)),
    readForm: () => {
      const { first_slot = null, last_slot = null } = readSelection(controls, plan);
      return { first_slot, last_slot, n_clusters: Number(k.value) };
    },
    show,
  });
}
