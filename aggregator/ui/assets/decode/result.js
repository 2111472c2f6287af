// The result of a decode: table, picture, verdict and evidence.

import { factList, h, named, picture, s, table, warningList } from "../base/dom.js";
import { downloadButtons } from "../base/downloads.js";
import { showClusters } from "../answers/clusters.js";
import { axesOf } from "../base/axes.js";
import { bottomAxis, dot, frame, leftAxis, line, reach, scale } from "../chart/chart.js";
import { askPanel } from "./ask.js";
import { lookPanel } from "./look.js";
import { makePlot } from "./profile.js";
import { syntheticPanel } from "./synthetic.js";
import { describeExcluded, describeSource } from "../study/selection.js";
import { count, decimalsOf, duration, fixed, rounded, searchedWithin, share, unitOf, whole, withUnit } from "../base/words.js";

const COLOURS = 10;

/** The clusters in the order of the result, whose numbers its verdict, its looks and the commands have too. */
function listClusters(result) {
  return result.weights.map((weight, i) => ({
    number: i + 1,
    colour: `c${i % COLOURS}`,
    weight,
    centroid: result.centroids[i],
    spread: result.spreads ? result.spreads[i] : null,
    isResolved: result.resolved ? result.resolved[i] : true,
    weightError: result.weight_errors?.[i] ?? null,
    errors: result.centroid_errors?.[i] ?? null,
    words: result.words?.[i] ?? "",
  }));
}

/** A cluster by its number and words, for sentences. */
const nameOf = ({ number, words }) => (words ? `${number} (${words})` : String(number));

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

/** Centres at a bound of the plan: records beyond it would be counted there. */
export function describeEdges(rows, axes) {
  return rows.flatMap((row) =>
    axes.flatMap(({ name, unit, lower, upper, isLevel }, i) => {
      const room = 1e-3 * (upper - lower);
      const side = row.centroid[i] <= lower + room ? "lower" : row.centroid[i] >= upper - room ? "upper" : null;
      return side && !isLevel ? [`cluster ${nameOf(row)} lies at the ${side} bound of ${name}, ${rounded(side === "lower" ? lower : upper)} ${unitOf({ unit })}`.trimEnd()] : [];
    }),
  );
}

function describeQuality(result, plan) {
  const band = result.band ?? result.quality;
  return [
    // Only Fourier features have a signal-to-noise ratio.
    ...(plan.statistic.kind === "fourier" ? [["Signal to noise", rounded(result.snr)]] : []),
    ...(band ? [["Expected quality", `${band.statement}: the squared error divided by that of k-means on the raw records; nine in ten answers with similar evidence were in this range`]] : []),
  ];
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
    {},
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
    [
      h(
        "button",
        { type: "button", class: `swatch ${row.colour}`, "aria-pressed": "false", "aria-label": `Highlight cluster ${row.number}`, onclick: () => pick(row.number) },
        whole(row.number),
      ),
      " ",
      named(row.words),
    ],
    [share(row.weight), row.weightError !== null && h("small", { class: "spread" }, ` (${share(row.weightError)})`)],
    ...row.centroid.map((value, i) => [
      dimensions[i].isLevel ? share(Math.min(1, Math.max(0, value)), 0) : fixed(value, decimals[i]),
      row.spread && showSpread(row.spread[i], dimensions[i], decimals[i]),
      row.errors && !dimensions[i].isLevel && h("small", { class: "spread" }, ` (${fixed(row.errors[i], decimals[i])})`),
    ]),
  ]);
  const numeric = cells[0].map((_, i) => i).slice(1);
  return table("Centroids", ["Cluster", "Share", ...dimensions.map(withUnit)], cells, { numeric, stacks: true });
}

/** What second looks measured, beside what the sketch alone predicts. */
function showLooks({ looks: taken }) {
  if (!taken) return null;
  const predicted = taken.weights.map((weight) => share(weight)).join(", ");
  const word = taken.predicted ? `; its verdict is ${taken.predicted.word}` : "";
  return [
    h("p", {}, h("strong", {}, "Measured: "), `shares are those of ${count(taken.looks.length, "second look")}, centroids are refined; ${taken.cost}.`),
    h("p", { class: "note" }, `The sketch alone predicts shares of ${predicted}${word}.`),
    ...taken.looks.map((look, i) =>
      h("details", { open: i + 1 === taken.looks.length }, h("summary", {}, `Second look ${i + 1}: ${count(look.n_sketches, "sketch", "sketches")}`), showClusters(look)),
    ),
  ];
}

/** What the error bars are worth, where they are not stated in full. */
function showBars({ bars }) {
  if (!bars || bars.word === "stated") return null;
  return h("p", { class: "note" }, h("strong", {}, bars.word === "none" ? "No error bars: " : "Rough error bars: "), bars.sentence);
}

/** Agreement and error over the number of clusters, where the decode has tried several. */
function showStability({ stability, sse_curve: curve }) {
  if (!stability && !curve) return null;
  const ks = [...new Set([...(stability ?? []), ...(curve ?? [])].map(({ n_clusters: k }) => k))].sort((a, b) => a - b);
  const of = (list, k, name) => list?.find(({ n_clusters: each }) => each === k)?.[name] ?? null;
  const text = (value) => (value === null ? "–" : rounded(value));
  const chart = (list, name, title) => {
    if (!list || list.length < 2) return null;
    const points = list.map((each) => [each.n_clusters, each[name]]);
    return h("figure", {}, h("figcaption", {}, title), picture((width) => drawCurve(points, title, width)).canvas);
  };
  return h(
    "details",
    {},
    h("summary", {}, "Caution on the number of clusters"),
    h("div", { class: "pair" }, chart(curve, "sse", "SSE by the number of clusters"), chart(stability, "agreement", "Agreement of repeated answers")),
    table("Number of clusters", ["Clusters", "Agreement", "SSE"], ks.map((k) => [whole(k), text(of(stability, k, "agreement")), text(of(curve, k, "sse"))]), { numeric: [0, 1, 2] }),
  );
}

function drawCurve(points, title, width) {
  const height = 160;
  const x = scale(reach(points.map(([k]) => k), { room: 0.03 }), [44, width - 12]);
  const y = scale(reach(points.map(([, v]) => v), { keep: [0] }), [height - 22, 10]);
  const at = points.map(([k, v]) => [x(k), y(v)]);
  const ticks = points.map(([k]) => ({ at: k, text: String(k) }));
  return frame(width, height, `${title}; the table below has the values`, leftAxis(y, x.range), s("g", { class: "series c0" }, line(at), at.map(([a, b]) => dot(a, b, 3))), bottomAxis(x, ticks, height - 22));
}

function csvOf(rows, dimensions) {
  const hasErrors = rows.some(({ errors }) => errors);
  const heads = ["cluster", "share", ...(hasErrors ? ["share_error"] : []), ...dimensions.flatMap(({ name }) => [name, `${name} spread`, ...(hasErrors ? [`${name} error`] : [])])];
  return [heads, ...rows.map((row) => [row.number, row.weight, ...(hasErrors ? [row.weightError] : []), ...row.centroid.flatMap((value, i) => [value, row.spread?.[i], ...(hasErrors ? [row.errors?.[i]] : [])])])];
}

function describeEvidence(evidence) {
  if (!evidence) return [];
  return [
    ["Model", evidence.model],
    ["Held-out misfit", `${rounded(evidence.held_out)} times what noise would cause`],
    ["Members of the pool", `differ by ${share(evidence.disagreement)} of the SSE on average, at most ${share(evidence.worst_disagreement)}`],
    ["Spread within a cluster", `${rounded(evidence.spread_over_scale)} times the plan's scale`],
    ["Far from all clusters", `below ${share(Math.max(evidence.far_share, evidence.hidden_share))} of the records would go unseen`],
    ["Tails of the model beyond the plan's bounds", `${share(evidence.edge_share)}; they count as at the bound. No record lies there: bells are wider than columns that end at a bound`],
  ];
}

function describeInfluence(found) {
  if (!found) return [];
  const cluster = `cluster ${found.cluster + 1} has ${share(found.share)} of the records with it, ${share(found.share_without)} without`;
  return [[`The ${found.source} that matters most, of ${whole(found.n_sources)}`, `without it these centroids have ${rounded(found.ratio)} times the SSE of better ones; ${cluster}`]];
}

function showDetails(decode, result, plan) {
  const box = searchedWithin(result.search_box, result.dimensions);
  return [
    ...describeQuality(result, plan),
    ...(result.bars ? [["Error bars", `${result.bars.word}: ${result.bars.sentence}`]] : []),
    ...(box ? [["Searched within", box]] : []),
    ["Decoder", `${decode.decoder}, version ${decode.decoder_version}, seed ${decode.seed}, ${duration(Math.max(1, Math.round(result.seconds)))}`],
    ...describeEvidence(result.evidence),
    ...describeInfluence(result.influence),
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
export function showResult(decode, snapshot, plan, { study, scope, signal }) {
  const { result } = decode;
  const rows = listClusters(result);
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
  const blurred = rows.filter(({ isResolved }) => !isResolved);
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
    warningList([...describeExcluded(snapshot, "decode again"), ...result.warnings, ...describeEdges(rows, dimensions)]),
    showBars(result),
    h("p", {}, describeSource(snapshot, plan)),
    withhold(result, [plot.node, centroids, downloadButtons("centroids", { data: () => result, rows: () => csvOf(rows, dimensions), pictures: plot.node })]),
    blurred.length > 0 && h("p", { class: "note" }, `In grey, for noise alone may have made ${blurred.length > 1 ? "them" : "it"}: cluster ${blurred.map(nameOf).join(", cluster ")}.`),
    rows[0].spread && h("p", { class: "note" }, `± is one standard deviation within the cluster.${rows[0].errors ? " In brackets: the standard error of the centroid and of the share." : ""}`),
    explainAxes(dimensions),
    showLooks(result),
    showChoice(result.choice),
    showStability(result),
    result.bars && [askPanel(decode, plan, signal), syntheticPanel(decode, signal)],
    rows[0].spread && lookPanel(decode, study, scope, signal),
    h("details", {}, h("summary", {}, "How this was computed"), factList(showDetails(decode, result, plan))),
  );
}
