// What comes back: the study's clusters, and which of them this device's readings are in.

import { h, picture, s, table } from "../base/dom.js";
import { bottomAxis, dot, frame, leftAxis, numberTicks, scale } from "../chart/chart.js";
import { decimalsOf, fixed, share, withUnit } from "../base/words.js";

const RECENT = 200;
const KEPT = 30;
const TONES = { sound: "good", rough: "fair", doubtful: "poor", "do not use": "bad" };

/** Pair each cluster with the nearest of the result before, so that it keeps number and colour. */
export function matchClusters(before, now) {
  const left = new Set(before.keys());
  const places = now.map(() => -1);
  const pairs = now.flatMap((centre, i) => before.map((old, j) => [Math.hypot(...centre.map((x, axis) => x - old[axis])), i, j]));
  for (const [, i, j] of pairs.sort(([a], [b]) => a - b)) {
    if (places[i] >= 0 || !left.has(j)) continue;
    places[i] = j;
    left.delete(j);
  }
  const free = [...left];
  let next = before.length;
  return places.map((place) => (place >= 0 ? place : (free.shift() ?? next++)));
}

/** The panel; `take` a result, `add` the readings of this device; `look` asks for a result. */
export function planePanel(plan, look) {
  const numbers = plan.fields.dimensions.filter(({ levels }) => !levels);
  // A study of choices alone has clusters, and no plane.
  const axes = numbers.length ? [numbers[0], numbers[1] ?? numbers[0]] : [];
  const recent = [];
  const history = [];
  let result = null;
  let nTaken = 0;
  const said = h("p", { role: "status" }, "Nothing is published yet: it takes a window with readings, and the server's next look at the study.");
  const where = h("p", {});
  const list = h("div");
  const placeOf = (axis) => result.published.dimensions.findIndex(({ name }) => name === axis.name);
  const valuesOf = (record) => axes.map(({ name }) => (Array.isArray(record) ? record[plan.fields.dimensions.findIndex((each) => each.name === name)] : record[name]));

  const drawing = picture((width) => {
    const height = Math.min(420, Math.max(260, width * 0.7));
    const [across, up] = axes;
    const x = scale([across.lower, across.upper], [44, width - 14]);
    const y = scale([up.lower, up.upper], [height - 42, 10]);
    const points = recent.map((values) => dot(x(values[0]), y(values[1]), 2, { class: "recent" }));
    const trails = history.slice(1).flatMap((now, i) =>
      now.map(({ number, centre }) => {
        const before = history[i].find((each) => each.number === number);
        return before && s("line", { class: `trail c${number % 10}`, x1: x(before.centre[0]), y1: y(before.centre[1]), x2: x(centre[0]), y2: y(centre[1]) });
      }),
    );
    const marks = (history.at(-1) ?? []).map(({ number, centre, weight }) => [
      dot(x(centre[0]), y(centre[1]), 9 + 14 * Math.sqrt(weight), { class: `cluster c${number % 10}` }),
      s("text", { class: "name", x: x(centre[0]), y: y(centre[1]) + 4 }, String(number + 1)),
    ]);
    return h(
      "div",
      {},
      frame(
        width,
        height,
        `Clusters of the study over ${across.name} and ${up.name}`,
        bottomAxis(x, numberTicks(across.lower, across.upper, 6), height - 40, { top: 10 }),
        leftAxis(y, [44, width - 14], { wanted: 5 }),
        s("g", { class: "plane" }, points, trails, marks),
      ),
    );
  });
  const choose = (i) =>
    h(
      "select",
      {
        onchange: (event) => {
          axes[i] = numbers[Number(event.target.value)];
          recent.length = history.length = 0;
          if (result) keep();
          drawing.redraw();
        },
      },
      numbers.map((dimension, j) => h("option", { value: j, selected: dimension === axes[i] }, withUnit(dimension))),
    );

  function keep() {
    const { centroids, weights } = result.published;
    const places = axes.length ? axes.map(placeOf) : centroids[0].map((_, i) => i);
    const centres = centroids.map((centroid) => places.map((place) => centroid[place]));
    const before = history.at(-1) ?? [];
    const numbersNow = matchClusters(before.map(({ centre }) => centre), centres).map((place) => before[place]?.number ?? place);
    history.push(centres.map((centre, i) => ({ number: numbersNow[i], centre, weight: weights[i] })));
    if (history.length > KEPT) history.shift();
  }

  function take(found) {
    if (!found || found.published.sequence === result?.published.sequence) return false;
    result = found;
    nTaken++;
    keep();
    const { verdict, dimensions, centroids, weights, created } = found.published;
    const when = new Date(1000 * created).toLocaleTimeString("en", { hour12: false });
    said.replaceChildren(
      verdict ? h("strong", { class: `verdict ${TONES[verdict.word]}` }, verdict.word[0].toUpperCase() + verdict.word.slice(1)) : "",
      verdict ? `: ${verdict.sentence}. ` : "",
      `Result ${nTaken} since you opened the page, published at ${when}.`,
    );
    const columns = dimensions.map((_, axis) => decimalsOf(centroids.map((centroid) => centroid[axis])));
    const rows = history
      .at(-1)
      .map(({ number }, i) => [h("span", { class: `swatch c${number % 10}` }, String(number + 1)), share(weights[i]), ...centroids[i].map((value, axis) => fixed(value, columns[axis]))]);
    list.replaceChildren(table("Clusters of the study", ["Cluster", "Share", ...dimensions.map(withUnit)], rows, { numeric: dimensions.map((_, i) => i + 2).concat(1) }));
    drawing.redraw();
    return true;
  }

  function add(records) {
    // A row of a file may lack a value, and has no place then.
    for (const record of records.slice(-RECENT)) if (valuesOf(record).every(Number.isFinite)) recent.push(valuesOf(record));
    recent.splice(0, Math.max(0, recent.length - RECENT));
    if (result && records.length) {
      const { cluster, isFar } = result.find(records.at(-1));
      const number = cluster && history.at(-1)[cluster - 1].number + 1;
      where.textContent = cluster ? `Your last reading is in cluster ${number}${isFar ? ", far from its middle" : ""}. This was found here: nothing was sent for it.` : "";
    }
    drawing.redraw();
  }
  const node = h(
    "section",
    { class: "card back-comes" },
    h("h2", {}, "What comes back"),
    said,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "small", onclick: look }, "Look for a new result")),
    numbers.length > 2 && h("div", { class: "axes" }, h("label", {}, h("span", {}, "Across"), choose(0)), h("label", {}, h("span", {}, "Up"), choose(1))),
    axes.length > 0 && h("figure", {}, drawing.canvas, h("figcaption", {}, "Numbered: the clusters of all devices, with the way that they came. Grey: readings of this device, drawn by this page; the server never gets them.")),
    where,
    list,
  );
  return { node, take, add };
}
