// The distribution of one number: bars with their bands, and intervals of quantiles below them.

import { settle, ticksBetween, ticksOf, toScale } from "../base/axes.js";
import { s } from "../base/dom.js";
import { noisyShare, rounded, share, tickText } from "../base/words.js";

const PLOT = 150;
const TOP = 24;
const LANE = 22;
const FOOT = 24;
const LEFT = 46;
const RIGHT = 24;
const LETTER = 6.6;

const say = (value, resolution) => rounded(settle(value, resolution));

/** The bars of the stretch where records are seen, or all of them. */
function chooseBars({ bars, seen_lower: first, seen_upper: last }, whole) {
  const seen = bars.filter(({ lower, upper }) => lower >= first && upper <= last);
  return whole || first === null || !seen.length ? bars : seen;
}

/** Shares beyond the stretch that is drawn, in words. */
export function describeRest(marginal, resolution) {
  const seen = chooseBars(marginal, false);
  return marginal.bars
    .filter((bar) => !seen.includes(bar))
    .map(({ lower, upper, share: part, error }) => {
      const side = upper <= seen[0].lower ? `below ${say(upper, resolution)}` : `above ${say(lower, resolution)}`;
      return `${side}: ${noisyShare(part, error)}`;
    })
    .join("; ");
}

function drawBar(bar, resolution, level, x) {
  // A bar that is wider than the narrowest is lower, so that its area is its share.
  const at = (part) => level(Math.max(0, part) * bar.lowered);
  const [from, to] = [x(bar.lower), x(bar.upper)];
  const wide = Math.max(0.5, to - from - (to - from > 3 ? 1 : 0));
  const [top, bottom] = [at(bar.share + 2 * bar.error), at(bar.share - 2 * bar.error)];
  return s(
    "g",
    { class: bar.share < 2 * bar.error ? "bar unsure" : "bar" },
    s("title", {}, `${say(bar.lower, resolution)} to ${say(bar.upper, resolution)}: ${noisyShare(bar.share, bar.error)}`),
    s("rect", { class: "value", x: from, y: at(bar.share), width: wide, height: level(0) - at(bar.share) }),
    s("rect", { class: "noise", x: from, y: top, width: wide, height: Math.max(1, bottom - top) }),
  );
}

function drawLevels(most, level, width) {
  return ticksBetween(0, most, 3).map((tick) => [
    s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: level(tick), y2: level(tick) }),
    s("text", { class: "tick", x: LEFT - 6, y: level(tick) + 4, "text-anchor": "end" }, `${rounded(100 * tick)}%`),
  ]);
}

function drawFoot([low, high], resolution, x, width) {
  const reach = (tick) => (LETTER * tickText(tick).length) / 2;
  const fits = (ticks) =>
    ticks.every((tick, i) => {
      if (x(tick) + reach(tick) > width) return false;
      return !i || x(ticks[i - 1]) + reach(ticks[i - 1]) + 8 < x(tick) - reach(tick);
    });
  const y = TOP + PLOT + LANE;
  return ticksOf(low, high, resolution, fits).map((tick) => [
    s("line", { class: "mark", x1: x(tick), x2: x(tick), y1: y, y2: y + 5 }),
    s("text", { class: "tick", x: x(tick), y: y + 19, "text-anchor": "middle" }, tickText(tick)),
  ]);
}

/** Intervals of the quantiles; that of the median is the darkest. */
function drawQuantiles(quantiles, [first, last], x) {
  const y = TOP + PLOT + 5;
  return quantiles.map(({ share: part, low, high }) => {
    const from = x(Math.min(last, Math.max(first, low ?? first)));
    const to = x(Math.max(first, Math.min(last, high ?? last)));
    return s("rect", { class: part === 0.5 ? "quantile median" : "quantile", x: from, y, width: Math.max(3, to - from), height: 12, rx: 2 });
  });
}

/** Draw a distribution; `whole` draws the plan's whole bounds. */
export function drawMarginal(marginal, { unit, resolution, summary }, width, whole) {
  const place = (value) => toScale(value, resolution);
  const chosen = chooseBars(marginal, whole);
  const ends = [chosen[0].lower, chosen.at(-1).upper];
  const [low, high] = ends.map(place);
  const widths = chosen.map(({ lower, upper }) => place(upper) - place(lower));
  const least = Math.min(...widths);
  const bars = chosen.map((bar, i) => ({ ...bar, lowered: least / widths[i] }));
  const most = Math.max(...bars.map(({ share: part, error, lowered }) => (part + 2 * error) * lowered));
  const x = (value) => LEFT + ((place(value) - low) / (high - low)) * (width - LEFT - RIGHT);
  const level = (part) => TOP + PLOT - (part / most) * PLOT;
  const height = TOP + PLOT + LANE + FOOT;
  const step = rounded(Number(least.toPrecision(3)));
  const each = resolution ? `${step} doublings` : `${step} ${unit}`.trimEnd();
  return s(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${summary}; ${bars.length} bars, which the table below lists` },
    s("text", { class: "tick", x: 0, y: 12 }, `share of the records per ${each}`),
    drawLevels(most, level, width),
    bars.map((bar) => drawBar(bar, resolution, level, x)),
    s("line", { class: "zero", x1: LEFT, x2: width - RIGHT, y1: level(0), y2: level(0) }),
    drawQuantiles(marginal.quantiles, ends, x),
    drawFoot(ends, resolution, x, width),
  );
}

/** The rows of a table of bars. */
export function listBars({ bars }, resolution) {
  return bars.map(({ lower, upper, share: part, error }) => [say(lower, resolution), say(upper, resolution), share(part, 2), `±${share(2 * error, 2)}`]);
}
