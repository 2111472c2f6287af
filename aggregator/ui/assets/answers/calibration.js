// What a pilot says about the plan of a main study, and the command to go on with.

import { Problem, request } from "../base/api.js";
import { settle } from "../base/axes.js";
import { announce, h, problemBox, table, warningList } from "../base/dom.js";
import { field } from "../study/selection.js";
import { rounded, withUnit } from "../base/words.js";

const DEFAULT_HOST = "127.0.0.1:8750";
const EXACT = "[0-9]+(\\.[0-9]+)?(e-?[0-9]+)?(\\/[0-9]+)?";

function makeControls(plan) {
  const clusters = (value, required) => h("input", { type: "number", min: "1", step: "1", value, required, inputmode: "numeric" });
  const exact = (value) => h("input", { type: "text", pattern: EXACT, value, required: true, inputmode: "decimal", autocomplete: "off" });
  return {
    least: clusters(plan.campaign?.most_clusters ?? (plan.most_clusters === "unknown" ? 5 : plan.most_clusters), true),
    most: clusters("", false),
    epsilon: exact("1"),
    delta: exact("0"),
  };
}

/** The query of the interface for the numbers of clusters. */
function queryOf({ least, most }) {
  return `clusters=${Number(least.value)}${most.value ? `&most_clusters=${Number(most.value)}` : ""}`;
}

function commandOf(study, { least, most, epsilon, delta }) {
  const range = most.value ? ` --most-clusters ${Number(most.value)}` : "";
  const exception = Number(delta.value) === 0 ? "" : ` --delta ${delta.value}`;
  const server = location.host === DEFAULT_HOST ? "" : ` --url ${location.origin}`;
  return `sfumato plan refine ${study.study_id} --clusters ${Number(least.value)}${range} --epsilon ${epsilon.value}${exception}${server} -o main.toml`;
}

function describeColumn(column, plan) {
  const { transform } = plan.dimensions.find(({ name }) => name === column.name);
  const range = (...ends) => ends.map((value) => rounded(settle(value, transform?.resolution))).join(" to ");
  const steps = column.resolution ? " doublings" : "";
  const numbers = column.is_kept
    ? [
        range(column.lower, column.upper),
        column.resolution ? `logarithmic, linear below ${rounded(column.resolution)}` : "linear",
        rounded(column.spread) + steps,
        rounded(column.scale) + steps,
        range(column.search_lower, column.search_upper),
      ]
    : ["–", "–", "–", "–", "–"];
  const name = withUnit(column);
  return [column.is_kept ? name : [name, " ", h("span", { class: "pill doubt" }, "left out")], ...numbers, column.findings.join("; ") || "–"];
}

function showColumns(found, plan) {
  const heads = ["Column", "Bounds", "Transform", "Spread", "Scale in a cluster", "Search box", "Reasons and warnings"];
  const rowClass = (row) => (found.columns[row].is_kept ? null : "blurred");
  const rows = found.columns.map((column) => describeColumn(column, plan));
  return h("div", { class: "columns" }, table("Columns of the main study", heads, rows, { rowClass }));
}

/** Name the columns that a main study would not have, for one reason or another. */
function describeLeftOut(found, plan) {
  const levels = plan.dimensions.filter((dimension) => dimension.levels?.length).map(({ name }) => name);
  const dropped = found.columns.filter(({ is_kept: isKept }) => !isKept).map(({ name }) => name);
  return [
    dropped.length > 0 && h("p", {}, `Left out: ${dropped.join(", ")}.`),
    levels.length > 0 && h("p", {}, `Left out, for a pilot gives levels no scale: ${levels.join(", ")}.`),
  ];
}

function showCommand(found, study, plan, controls) {
  if (found.refusal !== null) {
    return h("p", {}, "Plan a stronger pilot with ", h("code", {}, "sfumato plan pilot"), ". ", h("code", {}, "sfumato plan refine"), " refuses this one too.");
  }
  if (plan.campaign) return h("p", {}, "The server makes the plan of the next phase from this answer.");
  const isValid = Object.values(controls).every((control) => control.checkValidity());
  return [
    h("p", {}, "To plan the main study from all sketches of this one, run:"),
    h("pre", { class: "command", tabindex: "0", "aria-label": "Command that plans the main study" }, isValid ? commandOf(study, controls) : "fill in the fields first"),
    h(
      "p",
      { class: "note" },
      "Publish it with ",
      h("code", {}, "sfumato study create NAME main.toml"),
      ". The command above also chooses the mechanism and the frequencies for that epsilon and delta, predicts the quality, and writes each choice with its reason.",
    ),
  ];
}

function show(found, study, plan, controls) {
  const limits = found.limits.filter((text) => text !== found.refusal);
  return [
    found.refusal !== null && h("p", { class: "verdict bad", role: "status" }, h("strong", {}, "Do not build on this pilot"), `: ${found.refusal}.`),
    warningList(limits, "Limits of the calibration"),
    describeLeftOut(found, plan),
    showColumns(found, plan),
    h(
      "p",
      { class: "note" },
      `Strength of the pilot: ${rounded(found.strength)}; below 100 it is refused. `,
      "Bounds are wide on purpose, because wide bounds cost nothing; decodes search within the search box.",
    ),
    showCommand(found, study, plan, controls),
  ];
}

/** Whether a plan can be calibrated from: noised counts of at least one number. */
export function canCalibrate(plan) {
  return plan.release.kind !== "phase.v1" && plan.dimensions.some(({ levels }) => !levels?.length);
}

/** The calibration of a snapshot; `ready` promises the first, or null. */
export function calibrationPanel(study, plan, snapshot, signal) {
  const controls = makeControls(plan);
  const place = h("div", { "aria-live": "polite" });
  const path = `/v1/snapshots/${snapshot}/calibration`;
  let latest = 0;
  let asked = "";
  let found = null;
  async function update() {
    if (!controls.least.reportValidity() || !controls.most.reportValidity()) return;
    const turn = (latest += 1);
    const query = queryOf(controls);
    try {
      if (query !== asked || found === null) found = await request(`${path}?${query}`, { signal });
      asked = query;
      if (turn === latest) place.replaceChildren(h("div", {}, show(found, study, plan, controls)));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      found = null;
      if (turn === latest) place.replaceChildren(problemBox(error));
    }
  }
  for (const control of Object.values(controls)) control.addEventListener("change", () => update().then(() => announce("Calibration updated.")));
  const node = h(
    "section",
    { "aria-label": "Calibration" },
    h("h3", {}, "Calibration of a main study"),
    h("p", { class: "note" }, "What this pilot says about the plan of a study of clusters. It is computed from the answer above, and costs no privacy."),
    h(
      "div",
      { class: "fields" },
      field("Clusters, the least", controls.least),
      field("Clusters, the most", controls.most, "empty: the same"),
      field("Epsilon of the main study", controls.epsilon),
      field("Delta", controls.delta),
    ),
    place,
  );
  return { node, ready: update().then(() => found) };
}
