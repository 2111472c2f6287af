// The result of a decode: table, picture, verdict and evidence.

import { factList, h, table, warningList } from "./dom.js";
import { axesOf } from "./axes.js";
import { makePlot } from "./plot.js";
import { describeExcluded, describeSource } from "./selection.js";
import { count, decimalsOf, duration, fixed, rounded, searchedWithin, share, whole, withUnit } from "./words.js";

const COLOURS = 10;

function sortByWeight(result) {
  const order = result.weights.map((_, i) => i).sort((a, b) => result.weights[b] - result.weights[a]);
  return order.map((i, rank) => ({
    number: rank + 1,
    colour: `c${rank % COLOURS}`,
    weight: result.weights[i],
    centroid: result.centroids[i],
    spread: result.spreads ? result.spreads[i] : null,
    isResolved: result.resolved ? result.resolved[i] : true,
  }));
}

const TONES = { sound: "good", rough: "fair", doubtful: "poor", "do not use": "bad" };

function showVerdict({ verdict }) {
  if (!verdict) return null;
  return h(
    "p",
    { class: `verdict ${TONES[verdict.word]}`, role: "status" },
    h("strong", {}, verdict.word[0].toUpperCase() + verdict.word.slice(1)),
    `: ${verdict.sentence}.`,
  );
}

function showQuality(result, plan) {
  const band = result.band ?? result.quality;
  if (!band) return null;
  // Only Fourier features have a signal-to-noise ratio.
  const title = plan.statistic.kind === "fourier" ? `Signal to noise ${rounded(result.snr)}: ` : "Expected quality: ";
  return h(
    "p",
    { class: "quality" },
    h("strong", {}, title),
    `${band.statement}. `,
    h("span", { class: "note" }, "Relative SSE is the squared error divided by that of k-means on the raw records. Nine in ten answers with similar evidence were in this range."),
  );
}

function showChoice(choice) {
  if (!choice) return null;
  const rows = choice.residuals.map((residual, i) => [
    whole(i + 1),
    rounded(residual),
    rounded(choice.noise_floors[i]),
    i + 1 === choice.recommended ? "recommended" : i + 1 >= (choice.least ?? Infinity) && i + 1 <= choice.most ? "plausible" : "",
  ]);
  const heads = ["Clusters", "Unexplained", "Expected from noise", ""];
  return h(
    "details",
    { open: true },
    h("summary", {}, choice.statement),
    table("How many clusters", heads, rows, { numeric: [0, 1, 2] }),
  );
}

/** Say what a centroid is where an axis is not a plain number. */
function explainAxes(axes) {
  const logs = axes.filter(({ resolution }) => resolution).map(({ name }) => name);
  const level = axes.find(({ isLevel }) => isLevel);
  return [
    logs.length > 0 &&
      h("p", { class: "note" }, `${logs.join(", ")}: on a logarithmic scale. A centroid is a typical value there, like a geometric mean; its spread is in doublings.`),
    level !== undefined && h("p", { class: "note" }, `A column such as ${level.name} holds the share of the cluster's records with that level.`),
  ];
}

function showSpread(spread, axis, decimals) {
  if (axis.isLevel) return null;
  const text = axis.resolution ? `${fixed(spread, 1)} doublings` : fixed(spread, Math.max(0, decimals - 1));
  return h("small", { class: "spread" }, ` ±${text}`);
}

function showTable(rows, dimensions, pick) {
  const decimals = dimensions.map((_, i) => decimalsOf(rows.map(({ centroid }) => centroid[i])));
  const cells = rows.map((row) => [
    h(
      "button",
      { type: "button", class: `swatch ${row.colour}`, "aria-pressed": "false", "aria-label": `Highlight cluster ${row.number}`, onclick: () => pick(row.number) },
      whole(row.number),
    ),
    share(row.weight),
    ...row.centroid.map((value, i) => [
      dimensions[i].isLevel ? share(Math.min(1, Math.max(0, value)), 0) : fixed(value, decimals[i]),
      row.spread && showSpread(row.spread[i], dimensions[i], decimals[i]),
    ]),
  ]);
  const numeric = cells[0].map((_, i) => i).slice(1);
  return table("Centroids", ["#", "Share", ...dimensions.map(withUnit)], cells, { numeric });
}

function describeEvidence(evidence) {
  if (!evidence) return [];
  return [
    ["Model", evidence.model],
    ["Held-out misfit", `${rounded(evidence.held_out)} times what noise would cause`],
    ["Members of the pool", `differ by ${share(evidence.disagreement)} of the SSE on average, at most ${share(evidence.worst_disagreement)}`],
    ["Spread within a cluster", `${rounded(evidence.spread_over_scale)} times the plan's scale`],
    ["Outside the plan's bounds", share(evidence.edge_share)],
  ];
}

function showDetails(decode, result) {
  const box = searchedWithin(result.search_box, result.dimensions);
  return [
    ...(box ? [["Searched within", box]] : []),
    ["Decoder", `${decode.decoder}, version ${decode.decoder_version}, seed ${decode.seed}, ${duration(Math.max(1, Math.round(result.seconds)))}`],
    ...describeEvidence(result.evidence),
    ["Tries", result.agreement === null ? whole(result.n_replicates) : `${whole(result.n_replicates)}; ${share(result.agreement)} of them agree with the best`],
    ["Unexplained", `${rounded(result.residual)}; noise alone explains ${rounded(result.noise_floor)} of it`],
    ["Privacy", result.privacy.statement],
  ];
}

/** Hide centroids that should not be used behind a click. */
function withhold(result, nodes) {
  if (result.verdict?.word !== "do not use") return h("div", {}, nodes);
  return h("details", {}, h("summary", {}, "Show the centroids anyway"), nodes);
}

/** Show centroids with weights as a picture and a table, with their quality. */
export function showResult(decode, snapshot, plan) {
  const { result } = decode;
  const rows = sortByWeight(result);
  // Only the plan has the bounds; plan and result both have names and units.
  const dimensions = axesOf(plan.dimensions);
  const plot = makePlot(rows, dimensions);
  let picked = null;
  const pick = (number) => {
    picked = picked === number ? null : number;
    plot.highlight(picked);
    for (const [i, button] of buttons.entries()) {
      button.setAttribute("aria-pressed", String(rows[i].number === picked));
    }
  };
  const centroids = showTable(rows, dimensions, pick);
  const blurred = rows.filter(({ isResolved }) => !isResolved).length;
  for (const [i, line] of [...centroids.querySelectorAll("tbody tr")].entries()) {
    line.classList.toggle("blurred", !rows[i].isResolved);
  }
  const buttons = [...centroids.querySelectorAll("button.swatch")];
  for (const line of centroids.querySelectorAll("tbody tr")) {
    line.addEventListener("pointerenter", () => plot.highlight(rows[Number(line.dataset.row)].number));
    line.addEventListener("pointerleave", () => plot.highlight(picked));
  }
  return h(
    "div",
    {},
    h("h3", {}, `${count(rows.length, "cluster")}`),
    showVerdict(result),
    h("p", {}, describeSource(snapshot, plan)),
    showQuality(result, plan),
    explainAxes(dimensions),
    warningList([...describeExcluded(snapshot, "decode again"), ...result.warnings]),
    showChoice(result.choice),
    withhold(result, [plot.node, centroids]),
    blurred > 0 && h("p", { class: "note" }, `${count(blurred, "centroid")} in grey cannot be distinguished from noise.`),
    rows[0].spread && h("p", { class: "note" }, "± is one standard deviation within the cluster."),
    h("details", {}, h("summary", {}, "Details of the decode"), factList(showDetails(decode, result))),
  );
}
