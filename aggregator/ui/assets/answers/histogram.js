// The marginals of a snapshot: doubts, quantiles and bars of each dimension.

import { settle } from "../base/axes.js";
import { factList, h, picture, table } from "../base/dom.js";
import { between, noisyShare, rounded, share, unitOf, withUnit } from "../base/words.js";
import { drawBars } from "../chart/bars.js";
import { describeRest, drawMarginal, listBars } from "./marginal.js";

const MOST_LEVELS = 20;
const NOTE = [
  "The pale part of a bar is two standard deviations of its noise; bars are joined until they stand out from it, and one that does not is grey.",
  "Marks below the bars are intervals of the 5%, 25%, 50%, 75% and 95% points of the records with a value; all of a dimension hold together in 95 of 100 releases.",
  "“At most” is said of a share that noise may have made.",
].join(" ");
const CODES = {
  weak: "not seen",
  outside: "outside the bounds",
  beyond: "partly outside the bounds",
  constant: "constant",
  narrow: "narrow",
  flag: "flag",
  missing: "often missing",
  log: "log advised",
};

function describeQuantile(quantile, resolution) {
  const { value, low, high } = Object.fromEntries(
    Object.entries(quantile).map(([name, number]) => [name, number === null ? null : settle(number, resolution)]),
  );
  if (low === null && high === null) return "not known";
  if (low === null) return `below ${rounded(high)}`;
  if (high === null) return `above ${rounded(low)}`;
  return value === null ? `${rounded(low)} to ${rounded(high)}` : between(value, low, high);
}

function listFacts(marginal, resolution) {
  const [low, first, median, third, high] = marginal.quantiles.map((each) => describeQuantile(each, resolution));
  const { missing, below, above, error } = marginal;
  const rest = describeRest(marginal, resolution);
  return [
    ["Median", median],
    ["Quartiles", `${first} and ${third}`],
    ["5% and 95%", `${low} and ${high}`],
    ["Missing", noisyShare(missing, error)],
    ["Outside the bounds", `below: ${noisyShare(below, error)}; above: ${noisyShare(above, error)}`],
    ...(rest ? [["Outside the picture", rest]] : []),
  ];
}

function showNumber(marginal, dimension, whole) {
  const resolution = dimension.transform?.resolution ?? null;
  const summary = `Distribution of ${dimension.name}, median ${describeQuantile(marginal.quantiles[2], resolution)}`;
  const form = { unit: unitOf(dimension), resolution, summary };
  const { canvas, redraw } = picture((width) => drawMarginal(marginal, form, width, whole.checked));
  whole.addEventListener("change", redraw);
  const heads = ["From", "To", "Share", "Two deviations"];
  return [
    factList(listFacts(marginal, resolution)),
    canvas,
    h("details", {}, h("summary", {}, "Table of the bars"), table(`Bars of ${dimension.name}`, heads, listBars(marginal, resolution), { numeric: [0, 1, 2, 3] })),
  ];
}

function showLevels({ name, levels, missing, error }) {
  const rows = levels
    .map(({ level, share: part, error: noise }) => ({
      name: level,
      value: part,
      band: [part - 2 * noise, part + 2 * noise],
      text: noisyShare(part, noise),
      unsure: part < 2 * noise,
    }))
    .sort((a, b) => b.value - a.value);
  const shown = rows.slice(0, MOST_LEVELS);
  const high = Math.max(...rows.map(({ band }) => band[1]));
  const label = `Shares of the ${rows.length} levels of ${name}; the table below has the values`;
  const cells = rows.map((row) => [row.name, share(row.value, 2), row.text]);
  return [
    factList([["Other or missing", noisyShare(missing, error)]]),
    picture((width) => drawBars(shown, width, { high, label })).canvas,
    h(
      "details",
      {},
      h("summary", {}, shown.length < rows.length ? `Table of all ${rows.length} levels` : "Table of the levels"),
      table(`Levels of ${name}`, ["Level", "Share", "95% interval"], cells, { numeric: [1] }),
    ),
  ];
}

function showMarginal(marginal, dimension, column, whole) {
  const content = marginal === undefined ? [h("p", { class: "empty" }, "No sketch of this selection carries it.")] : null;
  return h(
    "section",
    { class: "marginal", "aria-label": dimension.name },
    h("h3", {}, withUnit(dimension), column?.codes.map((code) => [" ", h("span", { class: "pill doubt" }, CODES[code] ?? code)])),
    column?.findings.length > 0 && h("ul", { class: "findings", "aria-label": `What to know about ${dimension.name}` }, column.findings.map((text) => h("li", {}, text))),
    content ?? (marginal.scale === "levels" ? showLevels(marginal) : showNumber(marginal, dimension, whole)),
  );
}

/** Show the marginals; `columns` are those of a calibration, or empty. */
export function showHistogram({ marginals }, columns, plan) {
  const whole = h("input", { type: "checkbox" });
  const find = (list, name) => list.find((each) => each.name === name);
  return h(
    "div",
    {},
    h("p", { class: "note" }, NOTE),
    marginals.some(({ scale }) => scale !== "levels") && h("label", { class: "check" }, whole, h("span", {}, "Show the plan's whole bounds")),
    h("div", { class: "marginals" }, plan.dimensions.map((dimension) => showMarginal(find(marginals, dimension.name), dimension, find(columns, dimension.name), whole))),
  );
}
