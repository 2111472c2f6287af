// The clusters over time: a strip of what stands out, and small multiples of every quantity.

import { request } from "../base/api.js";
import { axesOf } from "../base/axes.js";
import { attempt } from "../base/attempt.js";
import { announce, fold, h, isWide, picture, s, table } from "../base/dom.js";
import { downloadButtons } from "../base/downloads.js";
import { makeSchedules } from "../base/repeat.js";
import { chance, count, day, fixed, rounded, share, unitOf, whole, withUnit } from "../base/words.js";
import { band, bottomAxis, dot, errorBar, frame, leftAxis, legend, line, reach, scale, timeTicks } from "../chart/chart.js";
import { field, makeSelectionControls, layOutSelection, readSelection } from "../study/selection.js";
import { clusterName, describeEstimate, describeMoves, quantityOf } from "./changes.js";
import { analysisPanel, caveatsOf, clustersInput, describeCluster, showWords } from "./job.js";

const LEFT = 44;
const RIGHT = 12;
const STRIP = 120;
const LANE = 16;
const SMALL = 92;
const FOOT = 22;
const DOTS = 60;
const upTo = (wide, narrow) => (isWide() ? wide : narrow);
const REFERENCES = {
  "last-change": "last change",
  "last-accepted": "last accepted",
  "all-before": "all before",
};

const startOf = ({ start }) => Date.parse(start);
const endOf = ({ end }) => Date.parse(end);
const middleOf = (window) => (startOf(window) + endOf(window)) / 2;
const span = (windows) => [startOf(windows[0]), endOf(windows.at(-1))];
const TRUSTS = { sound: "sound", rough: "rough", doubtful: "doubtful", "do not use": "useless" };
const trustOf = ({ verdict }) => TRUSTS[verdict?.word] ?? "useless";
/** Days where windows last days, times where they are shorter. */
const period = (window) => `${day(window.start)} to ${day(window.end)}`;

function stateOf(window) {
  if (window.p === null) return "hopeless";
  if (window.is_accepted) return "accepted";
  return window.is_alarm ? "alarm" : "quiet";
}

const SPOKEN = { alarm: "alarm", quiet: "no alarm", accepted: "accepted change", hopeless: "not compared" };

function describeWindow(window) {
  const seen = window.p === null ? SPOKEN[stateOf(window)] : `size ${fixed(window.size, 2)}${window.size_error ? ` ± ${fixed(window.size_error, 2)}` : ""}, chance ${chance(window.p)}: ${SPOKEN[stateOf(window)]}`;
  const verdict = window.verdict ? `; its clusters: ${window.verdict.word}, ${window.verdict.sentence}` : "";
  if (window.doubt) return `${period(window)}: ${window.doubt}`;
  return `${period(window)}: ${whole(window.n_records)} records, ${seen}${verdict}`;
}

/** The windows that a window is compared with, as a period; null for the first. */
function referenceOf(windows, i) {
  const first = windows[i].reference;
  return windows[i].p === null || first === null || first === undefined ? null : `${day(windows[first].start)} to ${day(windows[i - 1].end)}`;
}

/** Lines at change points, numbered; numbers that would touch go to a second row. */
function drawChanges(changes, windows, x, top, bottom, hasNumbers) {
  let last = -Infinity;
  let row = 0;
  return changes.map((change, i) => {
    const at = x(startOf(windows[change.window]));
    row = at - last < 18 ? 1 - row : 0;
    last = at;
    return s(
      "g",
      { class: "change" },
      s("title", {}, `Change ${i + 1}: ${day(change.start)}`),
      s("line", { x1: at, x2: at, y1: top, y2: bottom }),
      hasNumbers && [dot(at, top - 8 - 17 * row, 8), s("text", { x: at, y: top - 4 - 17 * row, "text-anchor": "middle" }, String(i + 1))],
    );
  });
}

function drawStrip({ windows, change_points: changes, smallest_shift: limit }, width, marks) {
  const x = scale(span(windows), [LEFT, width - RIGHT]);
  const top = 40;
  const y = scale([0, reach(windows.map(({ size, size_error: e }) => (size ?? 0) + (e ?? 0)), { keep: [0, limit] })[1]], [top + STRIP, top]);
  const lane = top + STRIP + 8;
  const low = lane + LANE + 5;
  const gap = Math.min(2, (x.range[1] - x.range[0]) / windows.length / 5);
  const bars = windows.map((window, i) => {
    const [from, to] = [x(startOf(window)), x(endOf(window))];
    const state = stateOf(window);
    return s(
      "g",
      { class: `window ${state}` },
      s("title", {}, describeWindow(window), referenceOf(windows, i) === null ? "" : `. Compared with ${referenceOf(windows, i)}`),
      window.size !== null && s("rect", { class: "value", x: from + gap / 2, y: y(window.size), width: Math.max(1, to - from - gap), height: Math.max(1, y(0) - y(window.size)) }),
      window.size !== null && window.size_error && errorBar([(from + to) / 2, y(Math.max(0, window.size - window.size_error))], [(from + to) / 2, y(window.size + window.size_error)]),
      s("rect", { class: "lamp", x: from + gap / 2, y: lane, width: Math.max(1, to - from - gap), height: LANE, "fill-opacity": window.p === null ? 0 : window.is_alarm ? 1 : 0.15 + 0.45 * Math.min(1, -Math.log10(Math.max(window.p, 1e-4)) / 4) }),
      s("rect", { class: `trust ${trustOf(window)}`, x: from + gap / 2, y: low, width: Math.max(1, to - from - gap), height: LANE / 2 }),
    );
  });
  const chosen = marks.map(([first, last], i) => {
    if (first === null) return null;
    const [from, to] = [x(startOf(windows[first])), x(endOf(windows[last]))];
    return s("g", { class: `chosen c${i}` }, s("rect", { x: from, y: top, width: to - from, height: STRIP }), s("text", { x: from + 4, y: top + 13 }, "AB"[i]));
  });
  return frame(
    width,
    low + LANE / 2 + FOOT,
    `Size of the difference in ${windows.length} windows, ${count(windows.filter((each) => each.is_alarm).length, "alarm")}; the table below has the values`,
    leftAxis(y, x.range),
    s("text", { class: "tick", x: 0, y: lane + 12 }, "chance"),
    s("text", { class: "tick", x: 0, y: low + 8 }, "trust"),
    chosen,
    bars,
    s("line", { class: "limit", x1: x.range[0], x2: x.range[1], y1: y(limit), y2: y(limit) }),
    drawChanges(changes, windows, x, top, lane + LANE, true),
    bottomAxis(x, timeTicks(...x.domain, width - LEFT - RIGHT), low + LANE / 2),
  );
}

/** Whether error bars may be shown; a window without them is drawn faint. */
const isTrusted = ({ verdict }) => ["sound", "rough"].includes(verdict?.word);

function drawSmall({ windows, change_points: changes }, { value, error, low, high, text, colour, label }, width) {
  const x = scale(span(windows), [LEFT, width - RIGHT]);
  const y = scale([low, high], [SMALL - FOOT, 8]);
  const clamp = (number) => Math.min(SMALL - FOOT, Math.max(8, y(number)));
  const points = windows.map((window) => [x(middleOf(window)), value(window), error(window)]);
  const isThere = (point) => point !== undefined && point[1] !== null;
  const isEmpty = !points.some(isThere);
  return frame(
    width,
    SMALL,
    isEmpty ? `${label}: no window tells it` : label,
    leftAxis(y, x.range, { wanted: 2, text }),
    drawChanges(changes, windows, x, 8, SMALL - FOOT, false),
    isEmpty && s("text", { class: "what", x: (LEFT + width - RIGHT) / 2, y: SMALL / 2, "text-anchor": "middle" }, "no window tells"),
    s(
      "g",
      { class: `series ${colour}` },
      band(points.map(([at, v, e]) => (v === null ? [at, null, null] : [at, clamp(v - e), clamp(v + e)]))),
      s("g", { class: "faint" }, line(points.map(([at, v]) => [at, v === null ? null : clamp(v)]))),
      line(points.map(([at, v], i) => [at, v === null || !isTrusted(windows[i]) ? null : clamp(v)])),
      windows.length <= DOTS &&
        points.map(([at, v, e], i) => [
          // A point without neighbours has no band.
          v !== null && !isThere(points[i - 1]) && !isThere(points[i + 1]) && errorBar([at, clamp(v - e)], [at, clamp(v + e)]),
          v !== null && s("g", { class: isTrusted(windows[i]) ? null : "faint" }, dot(at, clamp(v), 2.2)),
        ]),
    ),
    bottomAxis(x, timeTicks(...x.domain, width - LEFT - RIGHT), SMALL - FOOT),
  );
}

/** The quantities of a cluster; every cluster has the same span of a quantity, so that movements compare. */
function quantitiesOf({ windows, clusters, dimensions }, axes) {
  const pick = (k, read) => (window) => (window.clusters?.[k] ? read(window.clusters[k], window) : null);
  // A doubtful centre that was driven to a bound says nothing about the records.
  const within = (value, { lower, upper, isLevel }) => isLevel || (value > lower + 1e-3 * (upper - lower) && value < upper - 1e-3 * (upper - lower));
  const quantities = [
    { name: "share", text: (v) => share(v, 0), of: (each) => each.weight, error: (each) => each.weight_error },
    ...dimensions.map((dimension, i) => ({ name: withUnit(dimension), of: (each, window) => (each.centre && (!window || isTrusted(window) || within(each.centre[i], axes[i])) ? each.centre[i] : null), error: (each) => each.centre_error?.[i] ?? 0 })),
  ];
  return quantities.map((quantity) => {
    const isShare = quantity.name === "share";
    const ranges = clusters.map((cluster, k) => {
      const read = pick(k, quantity.of);
      return reach([...windows.map(read).filter((value) => value !== null), quantity.of(cluster)], isShare ? { keep: [0], room: 0.12 } : { room: 0.2 });
    });
    const most = Math.max(...ranges.map(([low, high]) => high - low));
    return clusters.map((_, k) => {
      const middle = (ranges[k][0] + ranges[k][1]) / 2;
      return {
        name: quantity.name,
        text: quantity.text,
        value: pick(k, quantity.of),
        error: (window) => pick(k, quantity.error)(window) ?? 0,
        low: isShare ? 0 : middle - most / 2,
        high: isShare ? Math.min(1.05, most) : middle + most / 2,
        colour: `c${k % 10}`,
        label: `${quantity.name} of cluster ${k + 1} over ${windows.length} windows`,
      };
    });
  });
}

function showMultiples(result, plan) {
  const { clusters, dimensions } = result;
  const quantities = quantitiesOf(result, axesOf(plan.dimensions));
  return h(
    "div",
    { class: "multiples" },
    clusters.map((cluster, k) =>
      h(
        "section",
        { "aria-label": `Cluster ${k + 1}` },
        h("h4", { class: `c${k % 10}` }, h("span", { class: "dot" }, String(k + 1)), h("bdi", {}, describeCluster(cluster, dimensions))),
        h(
          "div",
          { class: "row" },
          quantities.map((of) => h("figure", {}, h("figcaption", {}, h("bdi", {}, of[k].name)), picture((width) => drawSmall(result, of[k], width)).canvas)),
        ),
      ),
    ),
  );
}

/** What changed, in short: the surest changes, each with the colour of its cluster. */
function showChips(changes, result) {
  const named = changes.filter((each) => each.is_named).sort((a, b) => Math.abs(b.z) - Math.abs(a.z));
  if (!named.length) return h("p", { class: "note" }, "No single cluster accounts for it.");
  const room = upTo(5, 3);
  return h(
    "ul",
    { class: "chips" },
    named.slice(0, room).map((each) =>
      h(
        "li",
        { class: `c${each.cluster % 10}`, title: clusterName(result, each.cluster) },
        h("span", { class: "dot" }, String(each.cluster + 1)),
        h("span", {}, h("bdi", {}, quantityOf(each)), " ", h("strong", {}, `${each.estimate > 0 ? "▲" : "▼"} ${describeEstimate(each, result)}`)),
      ),
    ),
    named.length > room && h("li", { class: "note" }, `and ${count(named.length - room, "more change")}`),
  );
}

/** A button that accepts a change, and what becomes of it. */
function offerAccepting(change, window, study, signal) {
  const place = h("span", { class: "accepting" });
  const path = `/v1/studies/${study.study_id}/accepted-changes`;
  function offer(isAccepted) {
    const act = isAccepted
      ? () => request(`${path}/${window.first_slot}`, { method: "DELETE", signal }).then(() => offer(false))
      : () => request(path, { method: "POST", body: { first_slot: window.first_slot }, signal }).then(() => offer(true));
    const button = h("button", { type: "button", class: "small", onclick: () => attempt(place, signal, act), "aria-label": `${isAccepted ? "Accept no longer" : "Accept"} the change of ${day(change.start)}` }, isAccepted ? "Accept no longer" : "Accept");
    const isKnown = isAccepted === window.is_accepted;
    place.replaceChildren(...[isAccepted && h("span", { class: "pill accepted" }, "accepted"), " ", button, !isKnown && h("span", { class: "note" }, " Look over time again to see what follows.")].filter(Boolean));
    if (!isKnown) announce(isAccepted ? "accepted" : "no longer accepted");
  }
  offer(window.is_accepted);
  return place;
}

function showChanges(result, study, signal) {
  const { change_points: changes, windows } = result;
  if (!changes.length) return h("p", { class: "empty" }, windows.length < 2 ? "One window has nothing before it to compare with." : "No lasting change stands out.");
  const items = changes.map((change, i) =>
    h("li", { value: i + 1 }, h("strong", {}, day(change.start)), " ", offerAccepting(change, windows[change.window], study, signal), showChips(change.changes ?? [], result)),
  );
  items.reverse();
  const earlier = items.splice(upTo(items.length, 2));
  return [h("ol", { class: "changes" }, items), earlier.length > 0 && h("details", {}, h("summary", {}, count(earlier.length, "earlier change")), h("ol", { class: "changes" }, earlier))];
}

/** How many windows and changes stand out, in a sentence. */
function summarise({ windows, change_points: changes }) {
  const compared = windows.filter((each) => each.p !== null);
  const alarms = compared.filter((each) => each.is_alarm).length;
  if (!compared.length) return windows.length < 2 ? "There is one window, and nothing before it to compare with." : "No window can be compared with those before it.";
  const first = alarms ? `${whole(alarms)} of ${count(compared.length, "window")} ${alarms === 1 ? "is an alarm" : "are alarms"}` : `No alarm in ${count(compared.length, "window")}`;
  return `${first}; ${changes.length ? count(changes.length, "lasting change") : "no lasting change"}.`;
}

/** An alarm in the last window that is no lasting change yet. */
function listAlarm({ windows, change_points: changes }) {
  const last = windows.findLastIndex((each) => each.p !== null);
  return windows[last]?.is_alarm && !changes.some(({ window }) => window === last) ? [{ ...windows[last], window: last }] : [];
}

/** What changed, in columns and units where these are known, otherwise in clusters; the newest first. */
export function listFindings(result) {
  const { windows, change_points: changes } = result;
  return [...changes, ...listAlarm(result)].slice(-upTo(3, 1)).reverse().map((change) => {
    const columns = windows[change.window].columns?.filter((each) => each.is_named) ?? [];
    const told = columns.map((each) => `${each.name} ${rounded(Number(each.before.toPrecision(3)))} → ${rounded(Number(each.after.toPrecision(3)))} ${unitOf(each)}`.trimEnd());
    const what = told.length ? told : describeMoves(change.changes ?? [], result, 2).slice(0, 2);
    const where = change.devices?.words ? `, ${change.devices.words}` : "";
    return `Since ${day(change.start)}: ${what.join("; ") || "the records differ, in no single quantity that can be named"}${where}`;
  });
}

/** How far the clusters of the windows can be trusted. */
function describeTrust({ windows }) {
  const doubtful = windows.filter((each) => !isTrusted(each)).length;
  if (!doubtful) return null;
  const all = doubtful === windows.length ? `all ${count(doubtful, "window")}` : `${whole(doubtful)} of ${count(windows.length, "window")}`;
  return `The clusters of ${all} are doubtful by themselves: they are grey below, as hints and not as measurements`;
}

/** From which size on a difference counts, and why. */
function describeLimit({ smallest_shift: limit, usual }, asked) {
  if (asked.smallest_shift !== null && asked.smallest_shift !== undefined) return null;
  if (!(usual > limit * 0.999)) return null;
  return `Here one window usually differs from the next by a size of ${fixed(usual, 2)}, so only larger differences count`;
}

/** The sentences of the answer, without those that the page says otherwise. */
function remainingWords(result) {
  const said = [...result.windows, ...result.change_points].flatMap(({ finding, words }) => [finding, words]).filter(Boolean);
  return caveatsOf(result).filter((text) => !said.some((each) => text.includes(each)) && !text.startsWith("unlike the windows"));
}

/** The clusters once, as the key of the colours. */
function showKey({ clusters, dimensions }) {
  return h("ul", { class: "key", "aria-label": "Clusters" }, clusters.map((cluster, k) => h("li", { class: `c${k % 10}` }, h("span", { class: "dot" }, String(k + 1)), h("bdi", {}, cluster.words ? `${cluster.words}, ${share(cluster.weight, 0)}` : describeCluster(cluster, dimensions)))));
}

function listWindows({ windows }) {
  return windows.map((window, i) => [
    period(window),
    whole(window.n_sketches),
    whole(window.n_records),
    window.size === null ? "–" : `${fixed(window.size, 2)}${window.size_error ? ` ± ${fixed(window.size_error, 2)}` : ""}`,
    window.p === null ? "–" : chance(window.p),
    referenceOf(windows, i) ?? "–",
    window.doubt ?? SPOKEN[stateOf(window)],
    window.verdict?.word ?? window.unknown ?? "–",
  ]);
}

function csvOf({ windows, clusters, dimensions }) {
  const heads = ["start", "end", "n_records", "n_sketches", "snr", "size", "size_error", "p", "is_alarm", "is_accepted", "reference", "finding"];
  const of = ["verdict", ...clusters.flatMap((_, k) => [`cluster_${k + 1}_share`, `cluster_${k + 1}_share_error`, ...dimensions.flatMap(({ name }) => [`cluster_${k + 1}_${name}`, `cluster_${k + 1}_${name}_error`])])];
  const rows = windows.map((w) => [
    ...heads.map((name) => w[name]),
    w.verdict?.word ?? null,
    ...clusters.flatMap((_, k) => {
      const each = w.clusters?.[k];
      return [each?.weight, each?.weight_error, ...dimensions.flatMap((_, i) => [each?.centre?.[i], each?.centre_error?.[i]])];
    }),
  ]);
  return [[...heads, ...of], ...rows];
}

/** Choose two stretches of windows, by drawing over the strip or with the sliders. */
function makeBrush(result, study, asked, redraw) {
  const { windows } = result;
  const most = windows.length - 1;
  const marks = [[0, Math.max(0, Math.floor(most / 2))], [Math.min(most, Math.floor(most / 2) + 1), most]];
  const link = h("a", { class: "button" }, "Compare A with B");
  // Nothing is marked before somebody chooses.
  let isUsed = false;
  const words = marks.map(() => h("output", {}));
  const sliders = marks.map((mark, i) =>
    ["first", "last"].map((end, j) => {
      const input = h("input", { type: "range", min: "0", max: most, step: "1", value: mark[j], "aria-label": `${end} window of ${"AB"[i]}` });
      input.addEventListener("input", () => {
        isUsed = true;
        marks[i][j] = Number(input.value);
        // The other end gives way.
        marks[i][1 - j] = j ? Math.min(marks[i][0], marks[i][1]) : Math.max(marks[i][0], marks[i][1]);
        update();
      });
      return input;
    }),
  );
  function update() {
    marks.forEach(([first, last], i) => {
      sliders[i][0].value = first;
      sliders[i][1].value = last;
      sliders[i].forEach((input, j) => input.setAttribute("aria-valuetext", period(windows[marks[i][j]])));
      words[i].textContent = `${day(windows[first].start)} to ${day(windows[last].end)}`;
    });
    const isApart = marks[0][1] < marks[1][0] || marks[1][1] < marks[0][0];
    const slots = marks.map(([first, last]) => `${windows[first].first_slot}..${windows[last].last_slot}`);
    const query = new URLSearchParams({ a: slots[0], b: slots[1], k: asked.n_clusters, ...Object.fromEntries(Object.entries(asked.labels ?? {}).map(([name, value]) => [`label.${name}`, value])) });
    if (isApart) link.setAttribute("href", `#studies/${study.study_id}/compare?${query}`);
    else link.removeAttribute("href");
    link.textContent = isApart ? "Compare A with B" : "A and B overlap: move them apart";
    redraw();
  }
  /** Follow a pointer over the strip: the first stroke draws A, the next one B. */
  function follow(canvas) {
    let turn = 0;
    let from = null;
    const windowAt = (event) => {
      const box = canvas.getBoundingClientRect();
      const time = scale(span(windows), [LEFT, canvas.clientWidth - RIGHT]).invert(event.clientX - box.left);
      const found = windows.findIndex((each) => time < endOf(each));
      return found < 0 ? most : found;
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch") return;
      from = windowAt(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from === null) return;
      isUsed = true;
      const to = windowAt(event);
      marks[turn] = [Math.min(from, to), Math.max(from, to)];
      update();
    });
    canvas.addEventListener("pointerup", () => {
      if (from !== null) turn = 1 - turn;
      from = null;
    });
  }
  const node = h(
    "fieldset",
    { class: "brush" },
    h("legend", { class: "unseen" }, "Compare two stretches"),
    marks.map((_, i) => h("div", { class: `c${i}` }, h("strong", {}, "AB"[i]), sliders[i], words[i])),
    h("div", { class: "buttons" }, link),
  );
  return { node, chosen: () => (isUsed ? marks : []), update, follow };
}

function show(study, plan, signal) {
  return ({ result, request: asked }) => {
    const { windows } = result;
    const alarms = windows.filter((each) => each.is_alarm).length;
    if (!windows.length) return [showWords(result.words, "bad"), h("p", { class: "empty" }, "No window of this selection has a sketch.")];
    let brush = null;
    const strip = picture((width) => drawStrip(result, width, brush && windows.length > 1 ? brush.chosen() : []));
    brush = makeBrush(result, study, asked, strip.redraw);
    brush.update();
    brush.follow(strip.canvas);
    const figures = h("div", {}, h("h3", {}, "When something differs"), strip.canvas);
    const numeric = [1, 2, 3, 4];
    return [
      h(
        "div",
        { class: "strip" },
        showWords([...listFindings(result), summarise(result), describeTrust(result), describeLimit(result, asked), ...remainingWords(result)].filter(Boolean), alarms ? "bad" : "good"),
        figures,
        legend([
          ["alarm", "alarm"],
          ["quiet", "no alarm"],
          ...(windows.some((each) => each.is_accepted) ? [["accepted", "accepted change"]] : []),
          ["hopeless", "too noisy, or nothing before it"],
          ["change", "lasting change"],
          ["limit", "smallest size that counts"],
          ...Object.entries(TRUSTS).filter(([, trust]) => windows.some((each) => trustOf(each) === trust)).map(([word, trust]) => [`trust ${trust}`, `clusters: ${word}`]),
        ]),
      ),
      h("div", { class: "changes-part" }, h("h3", {}, "What changed, and when"), showKey(result), showChanges(result, study, signal), result.change_points.length > 0 && h("p", { class: "note how-to" }, "Accept a change that is known, such as a season or a new filter: it is no alarm any more, and later windows are compared with what came with it, for everybody and in scheduled timelines.")),
      fold(
        "The clusters, window by window",
        h("p", { class: "note" }, "Each window has a verdict. Where it is sound or rough, points are in colour, with bands of one standard error; grey points are of doubtful windows, and those at a bound of the plan are left out, as are clusters that are not to be used. All clusters have the same span of a quantity, so their movements compare; their levels differ."),
        showMultiples(result, plan),
      ),
      windows.length > 1 && fold("Compare two stretches", brush.node),
      h("details", {}, h("summary", {}, "Table of the windows"), h("p", { class: "note" }, "The size is that of the difference from the windows since the last change."), table("Windows", ["Window (UTC)", "Sketches", "Records", "Size", "Chance", "Compared with", "", "Its clusters"], listWindows(result), { numeric, stacks: true })),
      downloadButtons("over-time", { data: () => result, rows: () => csvOf(result), pictures: figures }),
    ];
  };
}

/** The card of the time axis. */
export function timelinePanel(context) {
  const { plan: { plan }, study, query } = context;
  if (plan.window.kind !== "time") {
    return [h("section", { class: "card" }, h("h2", {}, "Over time"), h("p", { class: "empty" }, "The windows of this plan count records, so they have no times. Compare by label instead."))];
  }
  const controls = makeSelectionControls(plan);
  const schedules = makeSchedules(study, "timeline", context.signal);
  const k = clustersInput(plan, query);
  const against = h("select", {}, Object.entries(REFERENCES).map(([value, text]) => h("option", { value }, text)));
  const limit = h("input", { type: "number", min: "0", step: "any", placeholder: "automatic", inputmode: "decimal" });
  const step = h("input", { type: "number", min: "1", step: "1", value: "1", required: true, inputmode: "numeric" });
  const alarms = h("input", { type: "number", min: "0.01", step: "any", value: "1", required: true, inputmode: "decimal" });
  return [analysisPanel({
    context,
    kind: "timeline",
    section: "time",
    title: "Over time",
    verb: "Look over time",
    again: "Look over time again, or with other limits",
    lead: "Every window is compared with those since the last change, and with those of its weekday once there are four weeks of them, on one set of clusters. An alarm is a difference that noise rarely makes, and that is large enough to matter.",
    fields: h(
      "div",
      { class: "fields" },
      field("Clusters k", k),
      field("Plan's windows in one", step),
      field("False alarms a year", alarms),
      field("Compared since", against),
      field("Smallest size", limit, "in the plan's scales"),
      layOutSelection(controls),
      field("Repeat", schedules.every),
    ),
    schedules,
    readForm: () => {
      const { labels, first_slot = null, last_slot = null } = readSelection(controls, plan);
      return { labels, first_slot, last_slot, n_clusters: Number(k.value), slots_per_window: Number(step.value), false_alarms_per_year: Number(alarms.value), reference: against.value, smallest_shift: limit.value === "" ? null : Number(limit.value) };
    },
    show: show(study, plan, context.signal),
  })];
}
