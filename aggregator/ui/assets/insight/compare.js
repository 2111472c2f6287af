// Two selections compared: size, certainty, words, and how the clusters moved.

import { h, picture, s } from "../base/dom.js";
import { downloadButtons } from "../base/downloads.js";
import { chance, count, day, fixed, rounded, share } from "../base/words.js";
import { dot, errorBar, frame, bottomAxis, numberTicks, reach, scale } from "../chart/chart.js";
import { field, layOutSelection, makeSelectionControls, readSelection } from "../study/selection.js";
import { csvOfChanges, describeMoves, listChanges, showArrows } from "./changes.js";
import { analysisPanel, caveatsOf, clustersInput, describeCluster, showWords } from "./job.js";

/** Read a selection such as `3..7` from the address into controls. */
function fill(controls, query, name, plan) {
  const [, first, last] = /^(-?\d+)\.\.(-?\d+)$/.exec(query.get(name) ?? "") ?? [];
  if (controls.from && first !== undefined) {
    const at = (slot) => new Date(1000 * (plan.window.origin + slot * plan.window.length_s)).toISOString().slice(0, 16);
    controls.from.value = at(Number(first));
    controls.to.value = at(Number(last) + 1);
  }
  for (const [label, select] of controls.labels) {
    const value = query.get(`${name}.${label}`) ?? query.get(`label.${label}`);
    if (value !== null) select.value = `=${value}`;
  }
}

function drawSize({ size, size_error: error }, smallest, width) {
  const x = scale([0, Math.max(reach([size + 2 * error, smallest], { keep: [0] })[1], 0.05)], [8, width - 16]);
  const y = 26;
  return frame(
    width,
    64,
    `Size ${fixed(size, 2)} ± ${fixed(error, 2)}`,
    s("line", { class: "track", x1: x(0), x2: width - 16, y1: y, y2: y }),
    s("rect", { class: "value", x: x(0), y: y - 6, width: Math.max(1, x(size) - x(0)), height: 12 }),
    errorBar([x(Math.max(0, size - error)), y], [x(size + error), y]),
    dot(x(size), y, 4),
    s("line", { class: "limit", x1: x(smallest), x2: x(smallest), y1: y - 14, y2: y + 14 }),
    bottomAxis(x, numberTicks(...x.domain, width < 560 ? 4 : 8), y + 14),
  );
}

function showSides({ n_records: records, n_sketches: sketches }, asked, plan) {
  const at = (slot) => day(1000 * (plan.window.origin + slot * plan.window.length_s));
  const describe = ({ first_slot: first, last_slot: last, labels }) =>
    [
      ...Object.entries(labels ?? {}).map(([name, value]) => `${name} ${value}`),
      first !== null && first !== undefined ? `from ${at(first)}` : "",
      last !== null && last !== undefined ? `to ${at(last + 1)}` : "",
    ]
      .filter(Boolean)
      .join(", ") || "everything";
  return h(
    "dl",
    { class: "sides" },
    [asked.first, asked.second].map((side, i) => [
      h("dt", { class: `c${i}` }, "AB"[i]),
      h("dd", {}, h("bdi", {}, describe(side)), records && h("small", {}, `${count(sketches[i], "sketch", "sketches")}, ${count(Math.round(records[i]), "record")}`)),
    ]),
  );
}

/** Whether A and B differ, in what, and how surely. */
function describeDifference(result, { level }) {
  const moves = describeMoves(result.changes, result, 4);
  if (result.p >= level) return [`No difference of A and B can be told from noise`, ...caveatsOf(result)];
  const verdict = result.is_alarm ? "B differs from A" : "B differs from A, by less than counts";
  return [verdict, ...(moves.length ? moves : ["No single cluster accounts for it"]), `Noise alone makes such a difference with probability ${chance(result.p)}`, ...caveatsOf(result)];
}

function show(plan) {
  return ({ result, request: asked }) => {
    const arrows = h("div", {}, showArrows(result));
    return [
      showWords(describeDifference(result, asked), result.is_alarm ? "bad" : "good"),
      showSides(result, asked, plan),
      h("h3", {}, "Which clusters moved"),
      arrows,
      listChanges(result),
      h(
        "details",
        {},
        h("summary", {}, "How large it is in all"),
        h("div", { class: "size" }, picture((width) => drawSize(result, asked.smallest_shift, width)).canvas),
        h("p", {}, h("strong", {}, `Size ${fixed(result.size, 2)} ± ${fixed(result.size_error, 2)}`), `: an alarm needs a size above ${rounded(asked.smallest_shift)}, the dashed line, and a chance below ${share(asked.level, 1)}.`),
      ),
      h("details", {}, h("summary", {}, "The clusters"), h("ol", {}, result.clusters.map((each) => h("li", {}, h("bdi", {}, describeCluster(each, result.dimensions)))))),
      downloadButtons("comparison", { data: () => result, rows: () => csvOfChanges(result.changes), pictures: arrows }),
    ];
  };
}

/** The card of a comparison. */
export function comparePanel(context) {
  const { plan: { plan }, query } = context;
  const sides = [makeSelectionControls(plan), makeSelectionControls(plan)];
  sides.forEach((controls, i) => fill(controls, query, "ab"[i], plan));
  const k = clustersInput(plan, query);
  return [analysisPanel({
    context,
    kind: "comparison",
    section: "compare",
    title: "Compare",
    verb: "Compare A with B",
    again: "Compare other selections",
    lead: "Two selections without a common sketch: two times, two places, or both.",
    runNow: query.has("a") && query.has("b"),
    fields: [
      sides.map((controls, i) => h("fieldset", { class: `side c${i}` }, h("legend", {}, i ? "B, after" : "A, before"), h("div", { class: "fields" }, layOutSelection(controls)))),
      h("div", { class: "fields" }, field("Clusters k", k)),
    ],
    readForm: () => {
      const [first, second] = sides.map((controls) => readSelection(controls, plan));
      return { first, second, n_clusters: Number(k.value) };
    },
    show: show(plan),
  })];
}
