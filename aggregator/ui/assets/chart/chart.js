// Scales, axes and marks of every picture that is not a table.

import { ticksBetween } from "../base/axes.js";
import { h, s } from "../base/dom.js";
import { tickText } from "../base/words.js";

/** Room for a letter of a tick, in pixels. */
export const LETTER = 6.4;
const round = (number) => Number(number.toFixed(2));

/** Map a range of values to a range of places, linearly. */
export function scale([low, high], [from, to]) {
  const factor = high > low ? (to - from) / (high - low) : 0;
  const place = (value) => round(from + (value - low) * factor);
  place.invert = (at) => (factor ? low + (at - from) / factor : low);
  place.domain = [low, high];
  place.range = [from, to];
  return place;
}

/** The range of values that are there, with some room; `least` is the smallest width. */
export function reach(values, { room = 0.08, least = 0, keep = [] } = {}) {
  const there = [...values, ...keep].filter(Number.isFinite);
  if (!there.length) return [0, 1];
  let [low, high] = [Math.min(...there), Math.max(...there)];
  const lacks = Math.max(least - (high - low), high === low ? Math.abs(high) || 1 : 0) / 2;
  [low, high] = [low - lacks, high + lacks];
  const more = room * (high - low);
  return [keep.includes(low) ? low : low - more, keep.includes(high) ? high : high + more];
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", timeZone: "UTC" });
const DAYS = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const CLOCKS = [1, 5, 15, 30].map((n) => n * MINUTE).concat([1, 3, 6, 12].map((n) => n * HOUR), [1, 2, 7, 14].map((n) => n * DAY));
const two = (number) => String(number).padStart(2, "0");

function clockText(time, step) {
  const date = new Date(time);
  if (step < DAY && time % DAY) return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  return DAYS.format(date);
}

/** Round times between two, in UTC, with texts that have room in a width. */
export function timeTicks(low, high, width) {
  const fits = (n, letters) => n * (letters * LETTER + 10) <= width;
  for (const step of CLOCKS) {
    if (!fits((high - low) / step, 6)) continue;
    const ticks = [];
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push({ at, text: clockText(at, step) });
    if (ticks.length > 1) return ticks;
  }
  for (const months of [1, 2, 3, 6, 12, 24, 60, 120, 600]) {
    const start = new Date(low);
    const ticks = [];
    for (let i = Math.floor((12 * start.getUTCFullYear() + start.getUTCMonth()) / months) * months; ; i += months) {
      const at = Date.UTC(Math.floor(i / 12), i % 12);
      if (at > high) break;
      if (at >= low) ticks.push({ at, text: i % 12 ? MONTH.format(at) : String(Math.floor(i / 12)) });
    }
    if (fits(ticks.length, 4)) return ticks.length ? ticks : [{ at: low, text: clockText(low, DAY) }];
  }
  return [];
}

/** Remove ticks whose texts would touch the text before. */
function keepApart(ticks, x, [from, to]) {
  let end = -Infinity;
  return ticks.filter(({ at, text }) => {
    const half = (LETTER * text.length) / 2;
    if (x(at) - half < Math.max(end + 6, from - 24) || x(at) + half > to + 24) return false;
    end = x(at) + half;
    return true;
  });
}

/** The texts below a picture; `top` draws lines up to there. */
export function bottomAxis(x, ticks, y, { top = null } = {}) {
  return s(
    "g",
    { class: "axis" },
    keepApart(ticks, x, x.range).map(({ at, text }) => [
      top !== null && s("line", { class: "grid", x1: x(at), x2: x(at), y1: top, y2: y }),
      s("text", { class: "tick", x: x(at), y: y + 15, "text-anchor": "middle" }, text),
    ]),
  );
}

/** The texts left of a picture, with lines across it. */
export function leftAxis(y, [from, to], { wanted = 3, text = tickText } = {}) {
  return s(
    "g",
    { class: "axis" },
    ticksBetween(...y.domain, wanted).map((tick) => [
      s("line", { class: "grid", x1: from, x2: to, y1: y(tick), y2: y(tick) }),
      s("text", { class: "tick", x: from - 5, y: y(tick) + 3.5, "text-anchor": "end" }, text(tick)),
    ]),
  );
}

export const numberTicks = (low, high, wanted) => ticksBetween(low, high, wanted).map((at) => ({ at, text: tickText(at) }));

/** Stretches of neighbours without a gap. */
function runsOf(points, isThere) {
  const runs = [[]];
  for (const point of points) {
    if (isThere(point)) runs.at(-1).push(point);
    else if (runs.at(-1).length) runs.push([]);
  }
  return runs.filter(({ length }) => length);
}

const corners = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${round(x)},${round(y)}`).join("");

/** A line through points `[x, y]`; a null breaks it. */
export function line(points, attributes = {}) {
  const d = runsOf(points, ([, y]) => y !== null).filter(({ length }) => length > 1).map(corners).join("");
  return d ? s("path", { class: "line", fill: "none", d, ...attributes }) : null;
}

/** A band between `[x, low, high]`; a null breaks it. */
export function band(points, attributes = {}) {
  const d = runsOf(points, ([, low]) => low !== null)
    .filter(({ length }) => length > 1)
    .map((run) => `${corners(run.map(([x, , high]) => [x, high]))}L${corners(run.map(([x, low]) => [x, low]).reverse()).slice(1)}Z`)
    .join("");
  return d ? s("path", { class: "band", d, ...attributes }) : null;
}

/** An error bar from one place to another, upright or lying. */
export function errorBar([x1, y1], [x2, y2], attributes = {}) {
  return s("line", { class: "error", x1: round(x1), x2: round(x2), y1: round(y1), y2: round(y2), ...attributes });
}

export function dot(x, y, r, attributes = {}) {
  return s("circle", { cx: round(x), cy: round(y), r, ...attributes });
}

export function ellipse(x, y, rx, ry, attributes = {}) {
  return s("ellipse", { class: "ellipse", cx: round(x), cy: round(y), rx: round(rx), ry: round(ry), ...attributes });
}

/** An arrow that lies; its head is never longer than itself. */
export function arrow(from, to, y, attributes = {}) {
  const way = Math.sign(to - from);
  const head = Math.min(6, Math.abs(to - from));
  const d = `M${round(from)},${round(y)}L${round(to)},${round(y)}M${round(to - way * head)},${round(y - head * 0.7)}L${round(to)},${round(y)}L${round(to - way * head)},${round(y + head * 0.7)}`;
  return s("path", { class: "arrow", fill: "none", d, ...attributes });
}

export function frame(width, height, label, ...children) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, children);
}

/** What the marks mean; an entry is a class of the mark and a text. */
export function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map(([mark, text]) => h("li", {}, h("span", { class: `mark ${mark}`, "aria-hidden": "true" }), text)),
  );
}
