// Groups of one label: matrix of their differences, tree and map.

import { h, named, picture, s, table } from "../base/dom.js";
import { downloadButtons } from "../base/downloads.js";
import { chance, count, cut, fixed, whole } from "../base/words.js";
import { LETTER, dot, frame, reach, scale } from "../chart/chart.js";
import { spreadOut } from "../decode/profile.js";
import { field, layOutSelection, makeSelectionControls, readSelection } from "../study/selection.js";
import { describeMoves } from "./changes.js";
import { analysisPanel, caveatsOf, clustersInput, showWords } from "./job.js";

const SURE = 0.05;
const MOST_TOLD = 3;
const LINE = 26;
const NAME = 140;

/** How dark a cell is: four steps of size, and none where noise explains the difference. */
function shadeOf(size, p, most) {
  if (p >= SURE) return "unsure";
  return `s${Math.min(4, 1 + Math.floor((4 * size) / (most * 1.0001)))}`;
}

function showMatrix({ values, sizes, errors, p }, compare) {
  const most = Math.max(...sizes.flat(), 1e-9);
  const rows = values.map((value, i) => [
    named(value),
    ...values.map((other, j) => {
      if (i === j) return h("span", { class: "note" }, "–");
      const text = `${fixed(sizes[i][j], 2)} ± ${fixed(errors[i][j], 2)}`;
      return h("a", { class: `size ${shadeOf(sizes[i][j], p[i][j], most)}`, href: compare(value, other), title: `${value} and ${other}: chance ${chance(p[i][j])}` }, text, h("small", {}, `chance ${chance(p[i][j])}`));
    }),
  ]);
  return h("div", { class: "matrix" }, table("Differences of the groups", ["", ...values], rows));
}

/** Places of leaves in the order of the tree, so that no branch crosses. */
function orderOf(tree, n) {
  const joined = new Set(tree.flatMap(({ left, right }) => [left, right]));
  const walk = (node) => (node < n ? [node] : [...walk(tree[node - n].left), ...walk(tree[node - n].right)]);
  return Array.from({ length: n + tree.length }, (_, i) => i).filter((i) => !joined.has(i)).flatMap(walk);
}

function drawTree({ values, tree }, width) {
  const n = values.length;
  const room = Math.min(NAME, 0.4 * width);
  const x = scale([0, Math.max(...tree.map(({ height }) => height), 1e-9)], [width - room - 8, 16]);
  const rank = new Map(orderOf(tree, n).map((leaf, i) => [leaf, i]));
  const places = values.map((_, i) => [x(0), LINE * (rank.get(i) + 0.5)]);
  const branches = tree.map(({ left, right, height, p }) => {
    const [a, b] = [places[left], places[right]];
    const at = x(Math.max(0, height));
    places.push([at, (a[1] + b[1]) / 2]);
    return s(
      "g",
      { class: p < SURE ? "branch" : "branch unsure" },
      s("title", {}, `difference ${fixed(height, 2)}, chance ${chance(p)}`),
      s("path", { class: "line", fill: "none", d: `M${a[0]},${a[1]}H${at}V${b[1]}H${b[0]}` }),
    );
  });
  return frame(
    width,
    LINE * n + 6,
    `Tree of ${n} groups; the nearest are joined first`,
    branches,
    values.map((value, i) => s("text", { class: "what", x: x(0) + 8, y: places[i][1] + 4 }, s("title", {}, value), cut(value, Math.floor(room / 8)))),
  );
}

function drawMap({ map }, width) {
  const [xs, ys] = ["x", "y"].map((name) => map.map((each) => each[name]));
  const wide = Math.max(Math.max(...xs) - Math.min(...xs), 1e-6);
  const tall = Math.max(Math.max(...ys) - Math.min(...ys), 0.25 * wide);
  const height = Math.round(Math.min(420, Math.max(160, (width - 2 * 60) * (tall / wide) + 80)));
  const factor = Math.min((width - 120) / wide, (height - 80) / tall);
  const middle = [(Math.max(...xs) + Math.min(...xs)) / 2, (Math.max(...ys) + Math.min(...ys)) / 2];
  const at = map.map(({ x, y }) => [width / 2 + factor * (x - middle[0]), height / 2 - factor * (y - middle[1])]);
  const levels = spreadOut(at.map(([, y]) => y), 16, height - 8);
  const unit = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10].findLast((each) => each * factor <= width / 3) ?? 0.05;
  return frame(
    width,
    height + 24,
    `Map of ${map.length} groups; near groups are alike`,
    map.map(({ value }, i) => {
      const isLeft = at[i][0] > width / 2;
      const room = Math.floor((isLeft ? at[i][0] : width - at[i][0]) / LETTER) - 3;
      return s("g", { class: `c${i % 10}` }, dot(...at[i], 6, { class: "place" }), s("text", { class: "what", x: at[i][0] + (isLeft ? -10 : 10), y: levels[i] + 4, "text-anchor": isLeft ? "end" : "start" }, s("title", {}, value), cut(value, Math.max(4, room))));
    }),
    s("g", { class: "ruler" }, s("line", { x1: 8, x2: 8 + unit * factor, y1: height + 18, y2: height + 18 }), s("text", { class: "tick", x: 8, y: height + 12 }, `size ${unit}`)),
  );
}

const UNNAMED = "in no single quantity that can be named";

/** Which groups differ, and in what. */
function describePairs({ pairs, values, ...result }) {
  const sure = pairs.filter(({ p }) => p < SURE).sort((a, b) => b.changes.length - a.changes.length || b.size - a.size);
  const verdict = !sure.length
    ? "No difference between groups can be told from noise"
    : pairs.length === 1
    ? `${values[0]} and ${values[1]} differ`
    : sure.length === pairs.length
    ? `All ${whole(values.length)} groups differ from each other`
    : `${whole(sure.length)} of ${count(pairs.length, "pair")} of groups ${sure.length === 1 ? "differs" : "differ"}`;
  const told = sure.slice(0, MOST_TOLD).map((pair) => `${values[pair.second]} compared with ${values[pair.first]}: ${describeMoves(pair.changes, result).join("; ") || `different, ${UNNAMED}`}`);
  return [verdict, ...told, ...caveatsOf(result).filter((text) => !text.startsWith("no two values"))];
}

function showPairs({ pairs, values, ...result }, compare) {
  const rows = pairs.map((pair) => {
    const [first, second] = [values[pair.first], values[pair.second]];
    return [
      [named(first), " and ", named(second)],
      pair.p >= SURE ? "may be noise" : pair.changes.length ? h("ul", { class: "plain" }, describeMoves(pair.changes, result).map((text) => h("li", {}, text))) : UNNAMED,
      `${fixed(pair.size, 2)} ± ${fixed(pair.size_error, 2)}`,
      chance(pair.p),
      h("a", { href: compare(first, second) }, "Compare"),
    ];
  });
  return table("Pairs of groups", ["Groups", "What differs, from the first to the second", "Size", "Chance", "More"], rows, { numeric: [2, 3], stacks: true });
}

function show(study) {
  return ({ result, request: asked }) => {
    if (result.values.length < 2) return [showWords(result.words), h("p", { class: "empty" }, "Fewer than two groups have sketches, so there is nothing to compare.")];
    const range = (name) => (asked.first_slot === null || asked.last_slot === null ? {} : { [name]: `${asked.first_slot}..${asked.last_slot}` });
    const compare = (first, second) =>
      `#studies/${study.study_id}/compare?${new URLSearchParams({ a: "", b: "", ...range("a"), ...range("b"), [`a.${asked.label}`]: first, [`b.${asked.label}`]: second, k: asked.n_clusters })}`;
    const figures = h(
      "div",
      { class: "pair" },
      result.map?.length > 1 && h("figure", {}, h("figcaption", {}, "Map: near groups are alike"), picture((width) => drawMap(result, width)).canvas),
      result.tree?.length > 0 && h("figure", {}, h("figcaption", {}, "Tree: the most alike are joined first"), picture((width) => drawTree(result, width)).canvas),
    );
    const rows = () => [["first", "second", "size", "size_error", "p"], ...result.pairs.map((pair) => [result.values[pair.first], result.values[pair.second], pair.size, pair.size_error, pair.p])];
    return [
      showWords(describePairs(result), result.p.flat().some((each) => each < SURE) ? "bad" : "good"),
      showPairs(result, compare),
      figures,
      h("h3", {}, "Size of each difference"),
      showMatrix(result, compare),
      h("p", { class: "note" }, "A pale cell may be noise. Where a size is smaller than its error and the cell is not pale, the groups differ and noise hides by how much. Open a cell to compare two groups."),
      h("p", { class: "note" }, result.values.map((value, i) => `${value}: ${whole(Math.round(result.n_records[i]))} records`).join("; ")),
      downloadButtons("groups", { data: () => result, rows, pictures: figures }),
    ];
  };
}

/** The card of the groups. */
export function groupsPanel(context) {
  const { plan: { plan }, study, query } = context;
  if (!plan.labels.length) return [h("section", { class: "card" }, h("h2", {}, "Groups"), h("p", { class: "empty" }, "The plan declares no label, so there are no groups."))];
  const label = h("select", {}, plan.labels.map(({ name }) => h("option", { value: name }, name)));
  const k = clustersInput(plan, query);
  const controls = makeSelectionControls({ ...plan, labels: [] });
  return [analysisPanel({
    context,
    kind: "groups",
    section: "groups",
    title: "Groups",
    verb: "Compare the groups",
    again: "Compare the groups of another label or period",
    lead: "All values of one label, each compared with each other over the same times, so that the season is not taken for the place.",
    fields: h("div", { class: "fields" }, field("Label", label), field("Clusters k", k), layOutSelection(controls)),
    readForm: () => {
      const { first_slot = null, last_slot = null } = readSelection(controls, plan);
      return { label: label.value, first_slot, last_slot, n_clusters: Number(k.value) };
    },
    show: show(study),
  })];
}
