// Centroids as profile lines over one axis per dimension; the line width shows the weight.

import { fromScale, ticksBetween, toScale } from "../base/axes.js";
import { h, picture, s } from "../base/dom.js";
import { cut, rounded, share, unitOf } from "../base/words.js";

const PLOT = 288;
const HEAD = 54;
const ROW = 36;
// Standard errors of half a bar that holds nine times in ten.
const BAR = 1.645;
const APART = 4;
const BOTTOM = 18;
const SIDE = 46;
const LEAST_GAP = 76;
const LETTER = 8.4;
const LEAST_WIDTH = 1.5;
const MOST_WIDTH = 16;
const LABEL_GAP = 19;
// From an axis to the middle of the text of its ticks.
const TICK = 16;

/** The range of an axis: the plan's bounds, or the centroids with their spreads. */
export function rangeOf(rows, dimensions, i, whole) {
  const { lower, upper } = dimensions[i];
  if (whole) return [lower, upper];
  const reach = (sign) => rows.map(({ centroid, spread }) => centroid[i] + sign * (spread ? spread[i] : 0));
  const low = Math.max(lower, Math.min(...reach(-1)));
  const high = Math.min(upper, Math.max(...reach(1)));
  const room = 0.06 * (high - low);
  // All values are equal, so there is nothing to enlarge.
  if (!(high - low > 1e-6 * (upper - lower))) return [lower, upper];
  return [Math.max(lower, low - room), Math.min(upper, high + room)];
}

/** Straight from axis to axis: they have no order, and nothing lies between them. */
const corners = (points) => `M${points.join("L")}`;

/** The level of a line at a place, and half of its width there. */
function levelAt(points, at) {
  const i = Math.max(1, points.findIndex(([x]) => x >= at));
  const [[x0, y0], [x1, y1]] = points.length > 1 ? [points[i - 1], points[i]] : [points[0], [points[0][0] + 1, points[0][1]]];
  return y0 + ((at - x0) / (x1 - x0)) * (y1 - y0);
}

/** Move labels apart; keep their order and stay inside. */
export function spreadOut(levels, gap, most) {
  const order = levels.map((_, i) => i).sort((a, b) => levels[a] - levels[b]);
  const placed = [...levels];
  order.forEach((index, rank) => {
    if (rank) placed[index] = Math.max(placed[index], placed[order[rank - 1]] + gap);
  });
  for (let rank = order.length - 1, limit = most; rank >= 0; rank -= 1, limit -= gap) {
    placed[order[rank]] = Math.min(placed[order[rank]], limit);
    limit = Math.min(limit, placed[order[rank]]);
  }
  return placed;
}

/** The value at a tick; on a logarithmic scale ticks are whole doublings, and their values not round. */
function label({ resolution }, tick) {
  return resolution ? Number(fromScale(tick, resolution).toPrecision(2)).toLocaleString("en") : rounded(tick);
}

/** Rows and axes on the scales of the axes, on which spreads are measured. */
function toScales(rows, dimensions) {
  const axes = dimensions.map((axis) => ({ ...axis, lower: toScale(axis.lower, axis.resolution), upper: toScale(axis.upper, axis.resolution) }));
  return [rows.map((row) => ({ ...row, centroid: row.centroid.map((value, i) => toScale(value, axes[i].resolution)) })), axes];
}

/** Draw an axis; where names have no room beside each other, every other one is a row higher. */
function drawAxis(dimension, x, gap, range, level, isLast, i, { rows, top, width, lines, isOnly }) {
  const lift = rows > 1 ? ROW * (1 - (i % 2)) : 0;
  // The first and the last name lie within the picture.
  const isCentred = rows === 1 && Math.max(dimension.name.length, unitOf(dimension).length) * LETTER < 2 * SIDE;
  const side = isCentred ? "middle" : i === 0 && !isOnly ? "start" : isLast ? "end" : "middle";
  const at = { start: 2, middle: x, end: width - 2 }[side];
  const room = Math.floor((rows === 1 ? gap : side === "middle" ? 2 * gap - 8 : 1.5 * gap) / LETTER);
  const head = top - 4 - lift;
  // The shares are to the right of the last axis.
  const middle = x + (isLast ? -1 : 1) * TICK;
  const ticks = ticksBetween(...range, 8).filter((tick) => lines.every(({ points, width: wide }) => Math.abs(levelAt(points, middle) - level(tick)) > wide / 2 + 7));
  return s(
    "g",
    { class: "axis" },
    s("title", {}, `${dimension.name} ${unitOf(dimension)}`),
    s("line", { x1: x, x2: x, y1: top, y2: top + PLOT }),
    s("text", { x: at, y: head - 34, class: `name ${side}` }, cut(dimension.name, room)),
    s("text", { x: at, y: head - 17, class: `unit ${side}` }, cut(unitOf(dimension), room)),
    ticks.map((tick) => [
      s("line", { x1: x - 3, x2: x + 3, y1: level(tick), y2: level(tick) }),
      s("text", { x: isLast ? x - 6 : x + 6, y: level(tick) + 3.5, class: "tick", "text-anchor": isLast ? "end" : "start" }, label(dimension, tick)),
    ]),
  );
}

const placesOf = (row, places, levels, shift = 0) => row.centroid.map((value, i) => [places[i], levels[i](value + shift * (row.spread ? row.spread[i] : 0))]);
const widthOf = ({ weight }, heaviest) => Math.max(LEAST_WIDTH, (MOST_WIDTH * weight) / heaviest);

function drawCluster(row, places, levels, heaviest, n) {
  // Bars of clusters that are alike on an axis stand beside each other.
  const shift = APART * (row.number - (n + 1) / 2);
  const at = (side) => placesOf(row, places, levels, side);
  return s(
    "g",
    { class: `cluster ${row.colour}`, "data-number": row.number },
    s("title", {}, `Cluster ${row.number}, ${row.words}, ${share(row.weight)}`),
    row.spread && s("path", { class: "ribbon", d: `${corners([...at(1), ...at(-1).reverse()])}Z` }),
    s("path", { class: "line", d: corners(at(0)), "stroke-width": widthOf(row, heaviest).toFixed(2) }),
    row.errors &&
      row.centroid.map((value, i) =>
        s("line", { class: "error", x1: places[i] + shift, x2: places[i] + shift, y1: levels[i](value - BAR * row.errors[i]), y2: levels[i](value + BAR * row.errors[i]) }),
      ),
  );
}

function drawLabels(rows, x, levels, text, anchor, height) {
  const placed = spreadOut(rows.map(({ centroid }) => levels(centroid.at(anchor === "end" ? 0 : -1))), LABEL_GAP, height - BOTTOM);
  return rows.map((row, i) =>
    s("text", { class: `label ${row.colour}`, "data-number": row.number, x, y: placed[i] + 4, "text-anchor": anchor }, text(row)),
  );
}

function draw(rows, dimensions, wanted, whole) {
  const n = dimensions.length;
  const width = Math.max(wanted, 2 * SIDE + LEAST_GAP * (n - 1));
  const gap = n > 1 ? (width - 2 * SIDE) / (n - 1) : width - 2 * SIDE;
  // Beside an outer name, which lies within the picture, stands a half of its neighbour.
  const room = (i) => (i % (n - 1) ? gap : Math.min(gap, SIDE + gap / 2 - 2));
  const names = n > 1 && dimensions.some(({ name }, i) => name.length > Math.floor(room(i) / LETTER)) ? 2 : 1;
  const top = HEAD + ROW * (names - 1);
  const height = top + PLOT + BOTTOM;
  const places = dimensions.map((_, i) => (n > 1 ? SIDE + i * gap : width / 2));
  const levels = dimensions.map((_, i) => {
    const [low, high] = rangeOf(rows, dimensions, i, whole);
    return (value) => {
      const y = top + PLOT - ((value - low) / (high - low)) * PLOT;
      return Number(Math.min(top + PLOT, Math.max(top, y)).toFixed(2));
    };
  });
  const heaviest = Math.max(...rows.map(({ weight }) => weight), Number.MIN_VALUE);
  const lines = rows.map((row) => ({ points: placesOf(row, places, levels), width: widthOf(row, heaviest) }));
  return s(
    "svg",
    {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Profiles of ${rows.length} clusters over ${n} dimensions; the table below has the values`,
    },
    s("filter", { id: "soft", x: "-10%", y: "-10%", width: "120%", height: "120%" }, s("feGaussianBlur", { stdDeviation: 5 })),
    // Draw heavy clusters first, so that no line is hidden.
    rows.map((row) => drawCluster(row, places, levels, heaviest, rows.length)),
    dimensions.map((dimension, i) => drawAxis(dimension, places[i], gap, rangeOf(rows, dimensions, i, whole), levels[i], i > 0 && i === n - 1, i, { rows: names, top, width, lines, isOnly: n === 1 })),
    drawLabels(rows, places[0] - 13, levels[0], ({ number }) => String(number), "end", height),
    drawLabels(rows, places[n - 1] + 13, levels[n - 1], ({ weight }) => share(weight, 0), "start", height),
  );
}

/** Create the picture; it is redrawn when its width changes. */
export function makePlot(rows, dimensions) {
  const whole = h("input", { type: "checkbox" });
  let shown = null;
  const label = "Picture of the centroids";
  const { canvas, redraw } = picture((width) => draw(...toScales(rows, dimensions), width, whole.checked), { label, drawn: mark });
  function mark() {
    for (const part of canvas.querySelectorAll("[data-number]")) {
      part.classList.toggle("dim", shown !== null && Number(part.dataset.number) !== shown);
    }
  }
  function highlight(number) {
    shown = number;
    mark();
  }
  whole.addEventListener("change", redraw);
  const node = h(
    "figure",
    {},
    canvas,
    h("figcaption", {}, h("span", {}, "The width of a line shows the share of its cluster. Soft bands show one standard deviation.", rows.some(({ errors }) => errors) && " Upright lines are 90% bars of the centroids."), h("label", { class: "check" }, whole, h("span", {}, "Show the plan's whole bounds"))),
  );
  return { node, highlight };
}
