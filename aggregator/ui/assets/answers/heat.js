// Correlations as a triangle of cells, each with its band on a scale from -1 to 1.

import { s } from "../base/dom.js";
import { cut, fixed } from "../base/words.js";

const LETTER = 8.2;
const LEAST = 26;
const MOST = 84;
const HEAD = 24;
const ROOM_FOR_TEXT = 44;

/** A correlation with its band; one that noise may have made says so. */
export function describeCorrelation(value, low, high) {
  const band = `${fixed(low, 2)} to ${fixed(high, 2)}`;
  return low > 0 || high < 0 ? `${fixed(value, 2)} (${band})` : `not told from 0 (${band})`;
}

function drawCell({ value, low, high, title }, x, y, size) {
  const inner = size - 2;
  const middle = x + size / 2;
  const reach = inner / 2 - 4;
  const isSeen = low > 0 || high < 0;
  const line = y + inner - 7;
  return s(
    "g",
    { class: `cell ${isSeen ? (value < 0 ? "minus" : "plus") : "unsure"}` },
    s("title", {}, title),
    s("rect", { class: "ground", x, y, width: inner, height: inner, rx: 3 }),
    isSeen && s("rect", { class: "fill", x, y, width: inner, height: inner, rx: 3, "fill-opacity": (0.12 + 0.68 * Math.abs(value)).toFixed(2) }),
    s("line", { class: "scale", x1: middle - reach, x2: middle + reach, y1: line, y2: line }),
    s("line", { class: "zero", x1: middle, x2: middle, y1: line - 3, y2: line + 3 }),
    s("line", { class: "band", x1: middle + low * reach, x2: Math.max(middle + low * reach + 1, middle + high * reach), y1: line, y2: line }),
    size >= ROOM_FOR_TEXT && s("text", { x: middle, y: y + inner / 2 + 1, "text-anchor": "middle" }, isSeen ? fixed(value, 2) : "–"),
  );
}

/** Draw the correlations of at least two axes; the table below has the numbers. */
export function drawCorrelations({ correlation, correlation_low: lows, correlation_high: highs }, names, wanted) {
  const n = names.length;
  const longest = LETTER * Math.max(...names.map((name) => name.length)) + 34;
  const left = Math.min(longest, 0.36 * wanted);
  const size = Math.max(LEAST, Math.min(MOST, (wanted - left) / (n - 1)));
  const width = Math.max(wanted, left + size * (n - 1));
  const height = HEAD + size * (n - 1) + 4;
  const letters = Math.floor((left - 30) / LETTER);
  // The first axis has no row of its own, so its name is beside the numbers of the columns.
  const rows = names.map((name, i) =>
    s(
      "g",
      {},
      s("title", {}, name),
      s("text", { x: 0, y: i ? HEAD + size * (i - 0.5) + 4 : 14, class: "what" }, `${i + 1} ${cut(name, letters)}`),
      i < n - 1 && s("text", { x: left + size * (i + 0.5), y: 14, "text-anchor": "middle" }, String(i + 1)),
    ),
  );
  const cells = names.flatMap((name, i) =>
    names.slice(0, i).map((other, j) => {
      const [value, low, high] = [correlation, lows, highs].map((matrix) => matrix[i][j]);
      const title = `${name} and ${other}: ${describeCorrelation(value, low, high)}`;
      return drawCell({ value, low, high, title }, left + size * j, HEAD + size * (i - 1), size);
    }),
  );
  return s(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Correlations of ${n} axes; the table below has the values` },
    rows,
    cells,
  );
}
