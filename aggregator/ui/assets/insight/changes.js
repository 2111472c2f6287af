// Changes of clusters: arrows in standard deviations, and their table.

import { h, picture, s, table } from "../base/dom.js";
import { chance, count, cut, fixed, signed, unitOf } from "../base/words.js";
import { LETTER, arrow, bottomAxis, dot, errorBar, frame, legend, numberTicks, reach, scale } from "../chart/chart.js";

const LANE = 26;
const HEAD = 26;
const FOOT = 24;
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
export function describeEstimate({ cluster, dimension, estimate, error }, { clusters, dimensions }) {
  if (dimension === null) return `${signed(100 * Math.expm1(estimate), 0)}% ± ${fixed(100 * Math.exp(estimate) * error, 0)}%`;
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

function draw(changes, result, width) {
  const isNarrow = width < NARROW;
  const names = changes.map(quantityOf);
  const left = isNarrow ? 12 : Math.min(0.3 * width, 8 * Math.max(...names.map((name) => name.length)) + 24);
  const lane = isNarrow ? LANE + 14 : LANE;
  const limits = changes.flatMap(({ estimate, error }) => [estimate - 2 * error, estimate + 2 * error]);
  const most = Math.max(...reach(limits, { keep: [0] }).map(Math.abs), 0.2);
  const x = scale([-most, most], [left, width - 12]);
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
        return s(
          "g",
          { class: isNamed ? "moved named" : "moved" },
          s("title", {}, `${quantityOf(change)}: ${describeEstimate(change, result)}`),
          s("text", { class: "what", x: isNarrow ? 0 : 8, y: isNarrow ? at - 10 : at + 4 }, cut(quantityOf(change), isNarrow ? 40 : Math.floor((left - 16) / LETTER))),
          errorBar([x(estimate - 2 * error), at], [x(estimate + 2 * error), at]),
          Math.abs(x(estimate) - x(0)) > 2 ? arrow(x(0), x(estimate), at) : dot(x(0), at, 2),
        );
      }),
    );
  });
  const ticks = numberTicks(-most, most, isNarrow ? 4 : 8);
  return frame(
    width,
    y + FOOT,
    `Changes of ${groups.length} clusters, in standard deviations; the table below has the values`,
    s("line", { class: "zero", x1: x(0), x2: x(0), y1: HEAD, y2: y }),
    drawn,
    bottomAxis(x, ticks, y, { top: null }),
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
    h("p", { class: "note" }, "In the picture a centre moves in standard deviations of its cluster; share and width are on a logarithmic scale, where +0.1 is about +10%. The table has the units."),
  ];
}

export function listChanges(result) {
  const order = [...result.changes].sort((a, b) => a.p - b.p || Math.abs(b.z) - Math.abs(a.z));
  const named = order.filter((each) => each.is_named);
  const others = order.filter((each) => !each.is_named);
  return [
    named.length ? tabulate("Changes", named, result) : h("p", { class: "empty" }, "No single change can be told from noise."),
    others.length > 0 && h("details", {}, h("summary", {}, `${count(others.length, "more quantity", "more quantities")}, whose change may be noise`), tabulate("Quantities whose change may be noise", others, result)),
  ];
}

function tabulate(caption, changes, result) {
  const rows = changes.map((change) => [
    shortName(result, change.cluster),
    h("bdi", {}, quantityOf(change)),
    describeEstimate(change, result),
    chance(change.p),
  ]);
  return table(caption, ["Cluster", "Quantity", "Change", "Chance"], rows, { numeric: [2, 3], stacks: true });
}

export function csvOfChanges(changes) {
  const heads = ["cluster", "quantity", "dimension", "estimate", "error", "z", "p", "is_named"];
  return [heads, ...changes.map((change) => heads.map((name) => (name === "cluster" ? change.cluster + 1 : change[name])))];
}
