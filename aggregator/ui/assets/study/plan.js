// A study's plan and guarantee, in words.

import { factList, h, identity, table, warningList } from "../base/dom.js";
import { STATISTICS, describeCarried } from "./statistic.js";
import { MECHANISMS, NEIGHBOURS, UNITS_PROTECTED, count, duration, exact, rounded, utc, whole } from "../base/words.js";

function describeWindow(window) {
  if (window.kind === "count") return `one sketch every ${count(window.length, "record")} of a stream`;
  const start = utc(new Date(1000 * window.origin));
  const end = window.end ? `, until ${utc(new Date(1000 * window.end))}` : "";
  return `one sketch every ${duration(window.length_s)} of a stream, counted from ${start}${end}`;
}

function describeRecords(plan) {
  if (plan.release.kind === "phase.v1") return "the first of each window; a report counts as one";
  if (plan.release.unit === "device") return `the first ${whole(plan.most_records)} of each window; their mean counts as one`;
  if (plan.release.neighbouring === "add-remove-one") return "any number; it stays secret";
  return `${whole(plan.least_records)} to ${whole(plan.most_records)}`;
}

function describePerson(most) {
  return most === "unknown" ? "unknown number per window" : `at most ${count(most, "record")} per window`;
}

function describeSketches(plan) {
  const limits = `at most ${whole(plan.most_sketches)}, ${whole(plan.most_sketches_per_device)} per device`;
  return `${limits}, each of ${describeCarried(plan)}`;
}

function describeClusters(most) {
  return most === "unknown" ? "unknown number" : `planned for up to ${whole(most)}`;
}

function facts(plan, digest) {
  const release = plan.release;
  return [
    ["Statistic", STATISTICS[plan.statistic.kind].sentence],
    ["Mechanism", `${MECHANISMS[release.mechanism] ?? release.mechanism}, drawn on each device`],
    ["Epsilon", exact(release.epsilon)],
    ["Delta", (release.delta ?? "0") === "0" ? "0: the guarantee has no exceptions" : exact(release.delta)],
    ["Protected", UNITS_PROTECTED[release.unit] ?? release.unit],
    ...(release.unit === "device"
      ? []
      : [
          ["Relation", `${release.neighbouring}: ${NEIGHBOURS[release.neighbouring] ?? ""}`],
          ["Records of one person", describePerson(plan.max_records_per_person)],
        ]),
    ["Clusters", describeClusters(plan.most_clusters)],
    ["Windows", describeWindow(plan.window)],
    ["Records in a sketch", describeRecords(plan)],
    ["Sketches", describeSketches(plan)],
    [
      "Labels",
      plan.labels.map((label) => `${label.name}: ${label.values.join(", ")}`).join("; ") || "none declared",
    ],
    ["Plan digest", identity(digest)],
  ];
}

function showPeople(privacy) {
  const rows = privacy.people.map((person) => [
    person.n_records,
    person.n_windows,
    person.epsilon,
    person.multiple_epsilon,
    person.multiple_delta,
  ]);
  const headings = ["Records per window", "Windows", "Epsilon", "Multiple of epsilon", "Delta at the multiple"];
  return [
    h("h3", {}, "People with several records"),
    table("People with several records", headings, rows, { numeric: [0, 1, 2, 3, 4] }),
    h("p", { class: "note" }, "Epsilon holds at the delta of one sketch. The multiple is the epsilon of one sketch times records and windows."),
  ];
}

function showLimits(privacy) {
  return [
    warningList(privacy.warnings, "Warnings about the plan"),
    h("h3", {}, "What everybody may see"),
    factList(privacy.public.map(({ what, detail, seen_by: by }) => [what, `${detail} Seen by the server; ${by}.`])),
    h("h3", {}, "What is not protected"),
    h("ul", {}, privacy.unprotected.map((text) => h("li", {}, text))),
    h("p", { class: "note" }, privacy.payload_days === null ? "The server keeps sketches as long as the study." : `The server drops the payloads of sketches after ${count(privacy.payload_days, "day")}; their part in sums stays.`),
  ];
}

function describeScale({ levels, transform }) {
  if (levels?.length) return `a category: ${levels.join(", ")}`;
  return transform ? `logarithmic, linear below ${rounded(transform.resolution)}` : "linear";
}

function describeSpread({ scale, transform, levels }) {
  if (levels?.length) return "–";
  return transform ? count(scale, "doubling") : rounded(scale);
}

function describeDimension(dimension, hasScale) {
  const isNumber = !dimension.levels?.length;
  return [
    dimension.name,
    dimension.unit === "1" ? (isNumber ? "pure number" : "–") : dimension.unit,
    isNumber ? rounded(dimension.lower) : "–",
    isNumber ? rounded(dimension.upper) : "–",
    ...(hasScale ? [describeSpread(dimension)] : []),
    describeScale(dimension),
  ];
}

/** Show the plan of a study with its guarantee. */
export function showPlan({ plan, plan_digest: digest }, privacy) {
  const hasScale = plan.statistic.kind === "fourier";
  const rows = plan.dimensions.map((dimension) => describeDimension(dimension, hasScale));
  const heads = ["Dimension", "Unit", "From", "To", ...(hasScale ? ["Spread within a cluster"] : []), "Scale"];
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Plan and guarantee"),
    h("blockquote", {}, privacy.statement),
    h("h3", {}, "Dimensions"),
    table("Dimensions", heads, rows, { numeric: hasScale ? [2, 3, 4] : [2, 3] }),
    h("p", { class: "note" }, plan.statistic.kind === "histogram"
      ? "Values outside the bounds are counted as below or above. Bounds are public guesses; they are not computed from the data."
      : `The device clips values outside the bounds. Bounds${hasScale ? " and spreads" : ""} are public guesses; they are not computed from the data.`),
    factList(facts(plan, digest)),
    showPeople(privacy),
    showLimits(privacy),
  );
}
