// Questions on the density behind a decode: ranges to a share, and the distribution of each dimension.

import { fromScale, toScale } from "../base/axes.js";
import { Problem, request } from "../base/api.js";
import { h, named, picture, problemBox, s } from "../base/dom.js";
import { rounded, share, unitOf, withUnit } from "../base/words.js";
import { band, bottomAxis, errorBar, frame, line, numberTicks, reach, scale } from "../chart/chart.js";

const STEPS = 200;
const POINTS = 96;
const WAIT_MS = 250;
const HEIGHT = 120;

/** Two sliders between the bounds of a dimension; an end that is at its bound is no limit. */
function makeRange(dimension, update) {
  const resolution = dimension.transform?.resolution ?? null;
  const [low, high] = [dimension.lower, dimension.upper].map((value) => toScale(value, resolution));
  const at = (step) => fromScale(low + ((high - low) * step) / STEPS, resolution);
  const make = (end, step) => h("input", { type: "range", min: "0", max: STEPS, step: "1", value: step, "aria-label": `${end} of ${dimension.name}` });
  const [from, to] = [make("lower end", 0), make("upper end", STEPS)];
  const words = h("output", {});
  function read() {
    const ends = [Number(from.value), Number(to.value)];
    return [ends[0] === 0 ? null : at(ends[0]), ends[1] === STEPS ? null : at(ends[1])];
  }
  function describe() {
    const [first, last] = read();
    const unit = unitOf(dimension);
    words.textContent = first === null && last === null ? "any" : first === null ? `at most ${rounded(last)} ${unit}` : last === null ? `at least ${rounded(first)} ${unit}` : `${rounded(first)} to ${rounded(last)} ${unit}`;
  }
  [from, to].forEach((input, i) =>
    input.addEventListener("input", () => {
      // The other end gives way, and stays a step apart.
      if (Number(from.value) >= Number(to.value)) {
        if (i) from.value = Math.max(0, Number(to.value) - 1);
        else to.value = Math.min(STEPS, Number(from.value) + 1);
      }
      describe();
      update();
    }),
  );
  describe();
  return { dimension, read, node: h("div", { class: "range" }, h("span", {}, named(dimension.name)), from, to, words) };
}

const withBar = (text, { low, high }, format) => (low === null ? text : `${text} (${format(low)} to ${format(high)})`);

function drawShare({ share: part, low, high }, width) {
  const x = scale([0, 1], [8, width - 16]);
  const y = 18;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: share(at, 0) }));
  return frame(
    width,
    52,
    `Share ${share(part)}`,
    s("line", { class: "track", x1: x(0), x2: x(1), y1: y, y2: y }),
    s("rect", { class: "value", x: x(0), y: y - 6, width: Math.max(1, x(part) - x(0)), height: 12 }),
    low !== null && errorBar([x(low), y], [x(high), y]),
    bottomAxis(x, ticks, y + 14),
  );
}

function drawCurve({ dimension, x: places, density, low, high }, [first, last], width) {
  const x = scale([places[0], places.at(-1)], [8, width - 8]);
  const y = scale([0, reach(high ?? density, { keep: [0] })[1]], [HEIGHT - 22, 6]);
  const ends = [first ?? places[0], last ?? places.at(-1)];
  return frame(
    width,
    HEIGHT,
    `Distribution of ${dimension}`,
    (first !== null || last !== null) && s("g", { class: "chosen c0" }, s("rect", { x: x(ends[0]), y: 6, width: Math.max(1, x(ends[1]) - x(ends[0])), height: HEIGHT - 28 })),
    s("g", { class: "series c0" }, low && band(places.map((at, i) => [x(at), y(low[i]), y(high[i])])), line(places.map((at, i) => [x(at), y(density[i])]))),
    bottomAxis(x, numberTicks(...x.domain, width < 300 ? 3 : 5), HEIGHT - 22),
  );
}

/** The part of a result that answers questions; folded, and asked when it is opened. */
export function askPanel(decode, plan, signal) {
  const numbers = plan.dimensions.filter(({ levels }) => !levels?.length);
  if (!numbers.length) return null;
  const place = h("div", {});
  let [timer, latest] = [0, 0];
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask(), WAIT_MS);
  };
  const ranges = numbers.map((dimension) => makeRange(dimension, later));

  async function ask() {
    const turn = (latest += 1);
    const limits = Object.fromEntries(ranges.map(({ dimension, read }) => [dimension.name, read()]).filter(([, ends]) => ends.some((end) => end !== null)));
    const isLimited = Object.keys(limits).length > 0;
    const free = numbers.filter(({ name }) => isLimited && !Object.hasOwn(limits, name));
    const body = {
      ranges: isLimited ? [limits] : [],
      marginals: numbers.map(({ name }) => ({ dimension: name, points: POINTS })),
      quantiles: numbers.map(({ name }) => ({ dimension: name, share: 0.5 })),
      means: free.map(({ name }) => ({ mean_of: name, within: limits })),
    };
    try {
      const answers = await request(`/v1/decodes/${decode.decode_id}/questions`, { method: "POST", body, signal });
      if (turn === latest) place.replaceChildren(show(answers, limits, free));
    } catch (error) {
      if (signal.aborted || turn !== latest) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
    }
  }

  function show(answers, limits, free) {
    const [found] = answers.ranges;
    return h(
      "div",
      {},
      answers.words.length > 0 && h("ul", { class: "words note" }, answers.words.map((text) => h("li", {}, text))),
      found?.refused
        ? h("p", { class: "empty" }, found.refused)
        : found
        ? [
            h("p", { class: "headline", role: "status" }, withBar(`${share(found.share)} of the records`, found, (part) => share(part))),
            h("div", { class: "size" }, picture((width) => drawShare(found, width)).canvas),
            free.length > 0 && h("ul", { class: "plain" }, free.map((dimension, i) => h("li", {}, "mean ", named(withUnit(dimension)), ` ${answers.means[i].refused ?? withBar(rounded(answers.means[i].mean), answers.means[i], rounded)}`))),
          ]
        : h("p", { class: "empty" }, "Move a slider: the page then says what share of the records lies in the ranges."),
      h(
        "div",
        { class: "multiples" },
        h(
          "div",
          { class: "row wide" },
          answers.marginals.map((curve, i) =>
            h(
              "figure",
              {},
              h("figcaption", {}, named(withUnit(numbers[i])), `, median ${withBar(rounded(answers.quantiles[i].value), answers.quantiles[i], rounded)}`),
              picture((width) => drawCurve(curve, limits[curve.dimension] ?? [null, null], width)).canvas,
            ),
          ),
        ),
      ),
      answers.bars !== "none" && h("p", { class: "note" }, `Bars and bands hold in ${share(answers.level, 0)} of cases${answers.is_rough ? "; they are rough" : ""}. Questions cost no privacy, however many.`),
    );
  }

  const details = h("details", { class: "ask" }, h("summary", {}, "Ask: what share of the records is where"), h("div", { class: "ranges" }, ranges.map(({ node }) => node)), place);
  details.addEventListener("toggle", () => {
    if (details.open && !place.firstChild) ask();
  });
  return details;
}
