// What a second look measured around the centres that devices were shown, doubts first.

import { h, picture, table, warningList } from "../base/dom.js";
import { between, count, noisyShare, share, withUnit } from "../base/words.js";
import { drawBars } from "../chart/bars.js";

const CLASSES = { sound: "verdict good", rough: "verdict", doubtful: "verdict bad", "do not use": "verdict bad" };

const around = (value, error) => between(value, value - 2 * error, value + 2 * error);

function showShares(clusters) {
  const rows = clusters.map(({ share: { value, error }, is_phantom: isPhantom }, i) => ({
    name: `Cluster ${i + 1}`,
    value,
    band: [value - 2 * error, value + 2 * error],
    text: `${noisyShare(value, error)}${isPhantom ? ", perhaps no record" : ""}`,
    unsure: isPhantom,
  }));
  const high = Math.max(...rows.map(({ band }) => band[1]));
  const label = `Measured shares of ${count(rows.length, "cluster")}; the table below has the values`;
  return picture((width) => drawBars(rows, width, { high, label })).canvas;
}

function showTable({ clusters, summed }) {
  const hasSpread = clusters.some(({ spread }) => spread);
  const heads = ["Cluster", "Share", ...(hasSpread ? ["Spread (1 is average)"] : []), ...summed.map((each) => `Mean of ${withUnit(each)}`)];
  const rows = clusters.map((each, i) => [
    String(i + 1),
    noisyShare(each.share.value, each.share.error),
    ...(hasSpread ? [each.spread ? `${around(each.spread.value, each.spread.error)}${each.is_wide ? ", wide" : ""}` : ""] : []),
    ...summed.map((_, j) => (each.mean ? around(each.mean[j], each.mean_error[j]) : "none")),
  ]);
  return table("Measured clusters", heads, rows, { stacks: true });
}

/** Verdict, doubts, the gain of a further step, and each cluster with its errors. */
export function showClusters(answer) {
  const { verdict, doubts, statement, explained, sse, beyond, candidates } = answer;
  return [
    h("p", { class: CLASSES[verdict.word], role: "status" }, h("strong", {}, verdict.word), `: ${verdict.sentence}.`),
    doubts.length > 1 && warningList(doubts.slice(1), "Doubts"),
    h("p", {}, `Measured: ${statement}.`),
    explained !== null && h("p", {}, `The clusters explain ${share(explained)} of the squared distances between records.`),
    sse && h("p", {}, `Left, with distances capped: ${around(sse.value, sse.error)} of the squared distances.`),
    beyond && h("p", {}, `Beyond the cap, or clipped: ${noisyShare(beyond.value, beyond.error)} of the records.`),
    h("h3", {}, "Records of each cluster"),
    showShares(answer.clusters),
    showTable(answer),
    candidates.slice(1).map(({ value, error }, i) => h("p", {}, `Candidate ${i + 1} has ${around(value, error)} times the squared distance.`)),
    h("p", { class: "note" }, "Ranges are two standard deviations of the noise. A look does not see other optima: the verdict on the first result counts as well."),
  ];
}
