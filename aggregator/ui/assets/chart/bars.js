// Horizontal bars, each with the band of its noise; on narrow screens the text is above the bar.

import { s } from "../base/dom.js";
import { cut } from "../base/words.js";

const LETTER = 7;
const BOLD = 8.2;
const NARROW = 560;
const THICK = 14;

/** Draw rows of a name, a value with its band, and a text; `unsure` ones are grey. */
export function drawBars(rows, width, { low = 0, high, label }) {
  const isNarrow = width < NARROW;
  const room = (key, letter, share) => (isNarrow ? 0 : Math.min(share * width, letter * Math.max(...rows.map((row) => row[key].length)) + 16));
  const [left, right] = [room("name", BOLD, 0.3), room("text", LETTER, 0.36)];
  const tall = isNarrow ? 44 : 27;
  const x = (value) => left + ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (width - left - right);
  const height = tall * rows.length + 2;
  function drawRow({ name, text, value, band, unsure }, i) {
    const line = i * tall + 17;
    const top = i * tall + (isNarrow ? 24 : 5);
    const [from, to] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
    const most = Math.floor((isNarrow ? width - LETTER * text.length - 12 : left - 10) / BOLD);
    return s(
      "g",
      { class: unsure ? "bar unsure" : "bar" },
      s("title", {}, `${name}: ${text}`),
      s("text", { x: 0, y: line, class: "what" }, cut(name, most)),
      s("rect", { class: "track", x: left, y: top, width: width - left - right, height: THICK }),
      s("rect", { class: "value", x: from, y: top, width: Math.max(1, to - from), height: THICK }),
      s("rect", { class: "noise", x: x(band[0]), y: top + 4, width: Math.max(2, x(band[1]) - x(band[0])), height: THICK - 8 }),
      low < 0 && s("line", { class: "zero", x1: x(0), x2: x(0), y1: top - 2, y2: top + THICK + 2 }),
      s("text", { x: width, y: line, "text-anchor": "end" }, text),
    );
  }
  return s(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    rows.map(drawRow),
  );
}
