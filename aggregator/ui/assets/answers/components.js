// Correlations and principal directions of a snapshot of moments, doubts first.

import { axesOf, fromScale, toScale } from "../base/axes.js";
import { h, picture, table, warningList } from "../base/dom.js";
import { between, count, fixed, rounded, share, unitOf, withUnit } from "../base/words.js";
import { drawBars } from "../chart/bars.js";
import { describeCorrelation, drawCorrelations } from "./heat.js";

const MOST_DRAWN = 6;
const MOST_SHARES = 12;
// More cells and rows are slow to draw, and nobody reads them.
const MOST_AXES = 60;
const MOST_PAIRS = 300;

const percent = (value, low, high) => `${share(value)} (${share(low)} to ${share(high)})`;

/** Numbers as words, such as "1, 2 and 4". */
function enumerate(numbers) {
  const texts = numbers.map(String);
  return texts.length > 1 ? `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}` : texts.join("");
}

/** How many directions noise leaves, in words. */
function showDoubts(components) {
  const unsure = components.flatMap(({ is_told_apart: isSure }, i) => (isSure ? [] : [i + 1]));
  const all = components.length;
  if (!unsure.length) {
    return h("p", { class: "verdict good" }, all > 1 ? `All ${all} directions are told apart from each other.` : "There is one direction alone.");
  }
  const which = unsure.length > 1 ? `Directions ${enumerate(unsure)} are` : `Direction ${unsure[0]} is`;
  return h(
    "p",
    { class: "verdict" },
    h("strong", {}, `${which} not told apart`),
    `: from noise, or from each other. Loadings of such a direction mean nothing and are not shown; ${all - unsure.length} of ${all} stand out.`,
  );
}

function showShares(components) {
  const rows = components.slice(0, MOST_SHARES).map((each, i) => ({
    name: `Direction ${i + 1}`,
    value: each.share,
    band: [each.share_low, each.share_high],
    text: `${percent(each.share, each.share_low, each.share_high)}${each.is_told_apart ? "" : ", not told apart"}`,
    unsure: !each.is_told_apart,
  }));
  const high = Math.max(...rows.map(({ band, value }) => Math.max(value, band[1])));
  const label = `Shares of the variance of ${count(rows.length, "direction")}; the table below has the values`;
  const cells = components.map((each, i) => [
    String(i + 1),
    percent(each.share, each.share_low, each.share_high),
    each.is_told_apart ? "yes" : "no",
    each.is_told_apart ? describeTurn(each) : "arbitrary",
  ]);
  return [
    h("h3", {}, "Share of the variance"),
    picture((width) => drawBars(rows, width, { high, label })).canvas,
    h("details", {}, h("summary", {}, "Table of the directions"), table("Directions", ["Direction", "Share of the variance", "Told apart", "Turned by noise"], cells)),
  ];
}

/** The angle that noise is expected to turn a direction by. */
function describeTurn({ expected_sin_squared: square }) {
  const angle = (180 / Math.PI) * Math.asin(Math.sqrt(square));
  return angle < 0.1 ? "less than 0.1°" : `about ${fixed(angle, angle < 10 ? 1 : 0)}°`;
}

function describeLoading(loading, error, { resolution }) {
  const unit = resolution ? " doublings" : "";
  return `${between(loading, loading - 2 * error, loading + 2 * error)}${unit}`;
}

function showDirection(component, number, axes) {
  // Axes of different units are drawn as shares of their bounds' half widths.
  const half = axes.map(({ lower, upper, resolution }) => (toScale(upper, resolution) - toScale(lower, resolution)) / 2);
  const rows = axes.map((axis, i) => {
    const [loading, error] = [component.loadings[i], component.loadings_error[i]];
    return {
      name: axis.name,
      value: loading / half[i],
      band: [(loading - 2 * error) / half[i], (loading + 2 * error) / half[i]],
      text: `${describeLoading(loading, error, axis)}${axis.resolution ? "" : ` ${unitOf(axis)}`}`.trimEnd(),
      unsure: Math.abs(loading) < 2 * error,
    };
  });
  const high = Math.max(...rows.map(({ band }) => Math.max(-band[0], band[1])));
  const label = `Loadings of direction ${number}`;
  const cells = rows.map(({ name, text, unsure }) => [name, text, unsure ? "noise may have made it" : ""]);
  return h(
    "section",
    { class: "marginal", "aria-label": `Direction ${number}` },
    h("h4", {}, `Direction ${number}`),
    h("p", {}, `${percent(component.share, component.share_low, component.share_high)} of the variance; noise is expected to turn it by ${describeTurn(component)}.`),
    picture((width) => drawBars(rows, width, { low: -high, high, label: `${label}; the table below has the values` })).canvas,
    h("details", {}, h("summary", {}, "Table of the loadings"), table(label, ["Axis", "Loading (95% interval)", ""], cells)),
  );
}

function showDirections(components, axes) {
  const sure = components.flatMap((component, i) => (component.is_told_apart ? [[component, i + 1]] : []));
  if (!sure.length) return null;
  const shown = sure.slice(0, MOST_DRAWN);
  return [
    h("h3", {}, "Loadings"),
    h(
      "p",
      { class: "note" },
      "A loading is how far one standard deviation along the direction moves an axis, in its unit. ",
      "Bars are in shares of the plan's bounds, so that axes of different units compare. The sign of a whole direction is arbitrary.",
    ),
    h("div", { class: "marginals" }, shown.map(([component, number]) => showDirection(component, number, axes))),
    sure.length > shown.length && h("p", { class: "note" }, `The first ${shown.length} of ${sure.length} are drawn.`),
  ];
}

function showCorrelations(answer, axes) {
  if (axes.length < 2) return null;
  const { correlation, correlation_low: lows, correlation_high: highs } = answer;
  const names = axes.map(({ name }) => name);
  const pairs = names.flatMap((name, i) => names.slice(0, i).map((other, j) => [name, other, i, j]));
  pairs.sort((a, b) => Math.abs(correlation[b[2]][b[3]]) - Math.abs(correlation[a[2]][a[3]]));
  const cells = pairs.slice(0, MOST_PAIRS).map(([name, other, i, j]) => [name, other, describeCorrelation(correlation[i][j], lows[i][j], highs[i][j])]);
  const drawn = [
    picture((width) => drawCorrelations(answer, names, width), { label: "Picture of the correlations" }).canvas,
    h("p", { class: "note" }, "The line in a cell is the 95% band on a scale from −1 to 1; a cell without colour is not told from 0."),
  ];
  const title = pairs.length > cells.length ? `Table of the ${MOST_PAIRS} largest of ${count(pairs.length, "correlation")}` : "Table of the correlations";
  return [
    h("h3", {}, "Correlations"),
    names.length <= MOST_AXES && drawn,
    h("details", {}, h("summary", {}, title), table("Correlations", ["Axis", "With", "Correlation (95% band)"], cells)),
  ];
}

function describeMean(mean, error, { resolution, isLevel }) {
  const ends = [mean - 2 * error, mean, mean + 2 * error].map((value) => fromScale(value, resolution));
  if (isLevel) return percent(...[mean, mean - 2 * error, mean + 2 * error].map((part) => Math.min(1, Math.max(0, part))));
  return between(ends[1], ends[0], ends[2]);
}

function showMeans({ mean, mean_error: errors }, axes) {
  const cells = axes.map((axis, i) => [withUnit(axis), describeMean(mean[i], errors[i], axis)]);
  const logs = axes.filter(({ resolution }) => resolution).map(({ name }) => name);
  return [
    h("h3", {}, "Means"),
    table("Means", ["Axis", "Mean (95% interval)"], cells),
    logs.length > 0 &&
      h("p", { class: "note" }, `${logs.join(", ")}: on a logarithmic scale. A mean is a typical value there, like a geometric mean; loadings are in doublings.`),
  ];
}

/** Show what a snapshot of moments says. */
export function showComponents(answer, plan) {
  const axes = axesOf(plan.dimensions);
  return h(
    "div",
    {},
    warningList(answer.warnings),
    showDoubts(answer.components),
    h(
      "p",
      { class: "note" },
      `Records without a missing value: about ${rounded(answer.n_complete)}. `,
      "Bands are about these records and hold in 95 of 100 releases, each by itself; as a sample of more records they err besides.",
    ),
    showShares(answer.components),
    showDirections(answer.components, axes),
    showCorrelations(answer, axes),
    showMeans(answer, axes),
  );
}
