// Changes of clusters: arrows with their figures in units, and their table.

import { h, picture, s, table } from "../base/dom.js";
import { chance, count, cut, fixed, signed, unitOf } from "../base/words.js";
import { LETTER, arrow, dot, errorBar, frame, legend, reach, scale } from "../chart/chart.js";

const LANE = 26;
const HEAD = 26;
const FOOT = 8;
const NARROW = 560;

/** The quantity of a change, in words. */
export function quantityOf({ quantity, dimension }) {
  if (dimension !== null) return dimension;
  return quantity === "variance" ? "width" : "share";
}

const shortName = ({ clusters }, k) => `${k + 1}${clusters[k].words ? ` (${clusters[k].words})` : ""}`;

/** A cluster of an answer by its number and words. */
export const clusterName = (result, k) => `cluster ${shortName(result, k)}`;

/** An estimate in the unit that readers know: that of the column, or per cent. */
export function describeEstimate({ cluster, quantity, dimension, estimate, error }, { clusters, dimensions }) {
  if (dimension === null) {
    // Readers know a width, which is the root of the variance.
    const power = quantity === "variance" ? 0.5 : 1;
    return `${signed(100 * Math.expm1(power * estimate), 0)}% ± ${fixed(100 * Math.exp(power * estimate) * power * error, 0)}%`;
  }
  const i = dimensions.findIndex(({ name }) => name === dimension);
  const spread = clusters[cluster].spread?.[i];
  if (!(spread * error > 0)) return `${signed(estimate)} ± ${fixed(error, 2)} sd`;
  const decimals = Math.min(6, Math.max(0, -Math.floor(Math.log10(spread * error))));
  return `${signed(spread * estimate, decimals)} ± ${fixed(spread * error, decimals)} ${unitOf(dimensions[i])}`.trimEnd();
}

/** The surest changes in words: what happened to which cluster, in units. */
export function describeMoves(changes, result, most = 3) {
  const named = changes.filter((each) => each.is_named).sort((a, b) => Math.abs(b.z) - Math.abs(a.z));
  const told = named.slice(0, most).map((each) => `${clusterName(result, each.cluster)}: ${quantityOf(each)} ${describeEstimate(each, result)}`);
  return [...told, ...(named.length > most ? [`${count(named.length - most, "more change")}`] : [])];
}

function draw(all, result, width) {
  const isNarrow = width < NARROW;
  const named = all.filter((each) => each.is_named);
  // On a phone what may be noise would bury what is not; the table has it.
  const changes = isNarrow && named.length ? named : all;
  const longest = (texts, letter) => letter * Math.max(...texts.map(({ length }) => length)) + 24;
  const left = isNarrow ? 12 : Math.min(0.3 * width, longest(changes.map(quantityOf), 8));
  const right = isNarrow ? 12 : longest(changes.map((each) => describeEstimate(each, result)), LETTER + 1);
  const lane = isNarrow ? LANE + 14 : LANE;
  const limits = changes.flatMap(({ estimate, error }) => [estimate - 2 * error, estimate + 2 * error]);
  const most = Math.max(...reach(limits, { keep: [0] }).map(Math.abs), 0.2);
  const x = scale([-most, most], [left, width - right]);
  const groups = result.clusters.map((_, i) => changes.filter(({ cluster }) => cluster === i)).filter(({ length }) => length);
  let y = 0;
  const drawn = groups.map((group) => {
    const { cluster } = group[0];
    const top = y;
    y += HEAD + lane * group.length;
    return s(
      "g",
      { class: `c${cluster % 10}` },
      s("text", { class: "label", x: 0, y: top + 18 }, cut(`${cluster + 1} ${result.clusters[cluster].words ?? ""}`.trimEnd(), Math.floor(width / LETTER) - 4)),
      group.map((change, i) => {
        const at = top + HEAD + lane * i + (isNarrow ? 24 : 10);
        const { estimate, error, is_named: isNamed } = change;
        const figure = describeEstimate(change, result);
        const line = isNarrow ? at - 10 : at + 4;
        const room = isNarrow ? width - longest([figure], LETTER + 1) : left - 16;
        return s(
          "g",
          { class: isNamed ? "moved named" : "moved" },
          s("title", {}, `${quantityOf(change)}: ${figure}`),
          s("text", { class: "what", x: isNarrow ? 0 : 8, y: line }, cut(quantityOf(change), Math.floor(room / LETTER))),
          s("text", { class: "what", x: width, y: line, "text-anchor": "end" }, figure),
          errorBar([x(estimate - 2 * error), at], [x(estimate + 2 * error), at]),
          Math.abs(x(estimate) - x(0)) > 2 ? arrow(x(0), x(estimate), at) : dot(x(0), at, 2),
        );
      }),
    );
  });
  return frame(
    width,
    y + FOOT,
    `Changes of ${groups.length} clusters; the table below has the values`,
    s("line", { class: "zero", x1: x(0), x2: x(0), y1: HEAD, y2: y }),
    drawn,
  );
}

/** The picture of the changes, with what its marks mean. */
export function showArrows(result) {
  if (!result.changes.length) return null;
  return [
    picture((width) => draw(result.changes, result, width)).canvas,
    legend([
      ["named", "change that noise hardly explains"],
      ["moved", "may be noise"],
      ["bar", "two standard errors"],
    ]),
    h("p", { class: "note" }, "An arrow is as long as a centre moves against the spread of its cluster, and as a share or a width changes in proportion."),
  ];
}

export function listChanges(result) {
  const order = [...result.changes].sort((a, b) => a.p - b.p || Math.abs(b.z) - Math.abs(a.z));
  const rows = order.map((change) => [
    shortName(result, change.cluster),
    h("bdi", {}, quantityOf(change)),
    describeEstimate(change, result),
    change.is_named ? chance(change.p) : [chance(change.p), h("small", {}, " may be noise")],
  ]);
  return [
    !order.some((each) => each.is_named) && h("p", { class: "empty" }, "No single change can be told from noise."),
    h("details", {}, h("summary", {}, `Table of the ${count(rows.length, "quantity", "quantities")}, with the chance of each change`), table("Changes", ["Cluster", "Quantity", "Change", "Chance"], rows, { numeric: [2, 3], stacks: true })),
  ];
}

export function csvOfChanges(changes) {
  const heads = ["cluster", "quantity", "dimension", "estimate", "error", "z", "p", "is_named"];
  return [heads, ...changes.map((change) => heads.map((name) => (name === "cluster" ? change.cluster + 1 : change[name])))];
}
