// Where records come from: a pad and sliders, the sensors of a phone, or a file that is dropped.

import { h, s } from "../base/dom.js";
import { count, rounded, whole, withUnit } from "../base/words.js";

const PERIOD_MS = 50;
/** A sensor that is there gives its first reading much sooner. */
const PATIENCE_MS = 2000;
/** Rows that are added at once: the device takes no more than 100,000 readings that it has not stored. */
const PORTION = 5000;
const SIZE = 200;
/** What a sensor gives, by the unit of the plan's dimensions. */
const SENSORS = {
  "°": { event: "deviceorientation", permission: "DeviceOrientationEvent", read: ({ gamma, beta, alpha }) => [gamma, beta, alpha], name: "the tilt of this device" },
  "m/s²": {
    event: "devicemotion",
    permission: "DeviceMotionEvent",
    read: ({ accelerationIncludingGravity: a }) => [a?.x, a?.y, a?.z],
    name: "the accelerometer of this device",
  },
};

const clamp = (value, { lower, upper }) => Math.min(upper, Math.max(lower, value));

/** A pad for two numbers; both have sliders too, so that a keyboard can do the same. */
function pad([across, up], values, changed) {
  const here = s("circle", { class: "here", r: 7 });
  const lines = [s("line", { class: "cross", x1: 0, x2: SIZE, y1: SIZE / 2, y2: SIZE / 2 }), s("line", { class: "cross", y1: 0, y2: SIZE, x1: SIZE / 2, x2: SIZE / 2 })];
  const node = s("svg", { class: "pad", viewBox: `0 0 ${SIZE} ${SIZE}`, "aria-hidden": "true" }, lines, here);
  const span = ({ lower, upper }) => upper - lower;
  node.addEventListener("pointerdown", (event) => node.setPointerCapture(event.pointerId));
  for (const name of ["pointerdown", "pointermove"]) {
    node.addEventListener(name, (event) => {
      if (!event.buttons) return;
      const box = node.getBoundingClientRect();
      values[across.name] = clamp(across.lower + ((event.clientX - box.left) / box.width) * span(across), across);
      values[up.name] = clamp(up.upper - ((event.clientY - box.top) / box.height) * span(up), up);
      changed();
    });
  }
  const draw = () => {
    here.setAttribute("cx", ((values[across.name] - across.lower) / span(across)) * SIZE);
    here.setAttribute("cy", ((up.upper - values[up.name]) / span(up)) * SIZE);
  };
  return { node, draw };
}

/** Controls for every dimension; `read` returns the record that they stand at. */
export function controls(dimensions) {
  const numbers = dimensions.filter(({ levels }) => !levels);
  const values = Object.fromEntries(dimensions.map(({ name, levels, lower, upper }) => [name, levels ? levels[0] : (lower + upper) / 2]));
  const draws = [];
  const changed = () => draws.forEach((draw) => draw());
  const fields = dimensions.map((dimension) => {
    const { name, levels, lower, upper } = dimension;
    if (levels) {
      const select = h("select", { onchange: () => (values[name] = select.value) }, levels.map((level) => h("option", { value: level }, level)));
      return h("label", {}, h("span", {}, name), select);
    }
    const shown = h("output", { "aria-live": "off" });
    const input = h("input", { type: "range", min: lower, max: upper, step: (upper - lower) / 1000, oninput: () => ((values[name] = Number(input.value)), changed()) });
    draws.push(() => {
      input.value = values[name];
      shown.textContent = rounded(values[name]);
    });
    return h("label", {}, h("span", {}, withUnit(dimension), ": ", shown), input);
  });
  const parts = [];
  if (numbers.length > 1) {
    const { node, draw } = pad(numbers, values, changed);
    parts.push(node);
    draws.push(draw);
  }
  changed();
  const set = (given) => {
    numbers.forEach((dimension, i) => {
      if (Number.isFinite(given[i])) values[dimension.name] = clamp(given[i], dimension);
    });
    changed();
  };
  return { node: h("div", {}, parts, h("div", { class: "fields" }, fields)), read: () => ({ ...values }), set };
}

/** The sensor that suits the plan's dimensions and this device, if there is one. */
function findSensor(dimensions) {
  const sensor = SENSORS[dimensions[0].unit];
  const suits = sensor && dimensions.length <= 3 && dimensions.every(({ unit, levels }) => unit === dimensions[0].unit && !levels);
  return suits && sensor.permission in window && navigator.maxTouchPoints > 0 ? sensor : null;
}

/** A panel that records where the controls stand, or what a sensor says, twenty times a second. */
export function recorder(dimensions, add) {
  const panel = controls(dimensions);
  const sensor = findSensor(dimensions);
  const told = h("p", { class: "note", role: "status" });
  let timer = null;
  let patience = null;
  let listening = null;
  const listen = (event) => {
    const values = sensor.read(event);
    panel.set(values);
    // Not before: where the pad stands is no reading of the sensor.
    if (!timer && dimensions.every((_, i) => Number.isFinite(values[i]))) {
      told.textContent = `The pad follows ${sensor.name}.`;
      go();
    }
  };

  const start = h("button", { type: "button", class: "main", onclick: () => (timer ? stop() : begin()) }, "Start recording");
  function stop() {
    clearInterval(timer);
    timer = null;
    if (listening) told.textContent = "";
    forgetSensor();
    start.textContent = "Start recording";
    start.classList.remove("recording");
  }
  function begin() {
    forgetSensor();
    told.textContent = "";
    go();
  }
  function forgetSensor() {
    clearTimeout(patience);
    if (listening) removeEventListener(listening, listen);
    listening = null;
  }
  function go() {
    clearTimeout(patience);
    timer = setInterval(() => add([panel.read()]), PERIOD_MS);
    start.textContent = "Stop recording";
    start.classList.add("recording");
  }
  async function useSensor() {
    const ask = window[sensor.permission].requestPermission;
    const answer = ask ? await ask.call(window[sensor.permission]).catch(() => "denied") : "granted";
    if (answer !== "granted") {
      told.textContent = "The browser refuses the sensor. Allow motion sensors for this site, or use the pad.";
      return;
    }
    if (start.matches(":disabled")) return;
    stop();
    addEventListener(sensor.event, listen);
    listening = sensor.event;
    told.textContent = `Waiting for ${sensor.name}.`;
    patience = setTimeout(() => {
      forgetSensor();
      told.textContent = `For two seconds nothing came from ${sensor.name}, so nothing is recorded. It may lack the sensor, or the browser holds it back: use the pad, or try again.`;
    }, PATIENCE_MS);
  }
  const node = h(
    "div",
    {},
    h("p", {}, dimensions.filter(({ levels }) => !levels).length > 1 ? "Drag the dot, or move the sliders." : "Set a reading.", " While you record, a reading is taken twenty times a second."),
    panel.node,
    h("div", { class: "buttons" }, start, sensor && h("button", { type: "button", onclick: useSensor }, `Use ${sensor.name}`)),
    told,
  );
  return { node, stop };
}

/** Split a line of CSV; quotes may hold separators, and two of them are one. */
export function splitLine(line, separator) {
  const cells = [""];
  let isQuoted = false;
  for (let i = 0; i < line.length; i++) {
    const at = line[i];
    if (isQuoted && at === '"' && line[i + 1] === '"') cells.push(cells.pop() + line[i++]);
    else if (at === '"') isQuoted = !isQuoted;
    else if (at === separator && !isQuoted) cells.push("");
    else cells.push(cells.pop() + at);
  }
  return cells.map((cell) => cell.trim());
}

/** Read a number; between semicolons a comma may stand for the point. Each cell is read by itself. */
function readNumber(cell, separator) {
  const text = separator === ";" && /^[-+]?\d*,\d+$/.test(cell) ? cell.replace(",", ".") : cell;
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : NaN;
}

/** Read a table: the first line names the columns. Throws an error that says what is missing. */
export function readTable(text, dimensions) {
  const lines = text.split(/\r\n|\n|\r/).filter((line) => line.trim());
  if (!lines.length) throw new RangeError("the file is empty. Choose one whose first line names the columns");
  const separator = [",", ";", "\t"].reduce((best, each) => (lines[0].split(each).length > lines[0].split(best).length ? each : best));
  const heads = splitLine(lines[0].replace(/^\ufeff/, ""), separator);
  const places = dimensions.map(({ name }) => heads.indexOf(name));
  const lacking = dimensions.filter((_, i) => places[i] < 0).map(({ name }) => name);
  if (lacking.length) throw new RangeError(`the first line has no column ${lacking.join(", ")}. Name the columns as the study does`);
  return lines.slice(1).map((line) => {
    const cells = splitLine(line, separator);
    return dimensions.map(({ levels }, i) => {
      const cell = cells[places[i]] ?? "";
      return levels ? cell : readNumber(cell, separator);
    });
  });
}

/** Whether a row lacks a value that its column may have. */
function isUnreadable(row, dimensions) {
  return dimensions.some(({ levels }, i) => (levels ? !levels.includes(row[i]) : Number.isNaN(row[i])));
}

/** Say what became of the rows of a file. */
function describeRows(name, nRows, nTaken, nUnreadable) {
  const parts = [`${nTaken < nRows ? `${whole(nTaken)} of ` : ""}${count(nRows, "row")} of ${name} added; the file was read here and sent nowhere.`];
  if (nUnreadable) {
    parts.push(
      `${count(nUnreadable, "row has", "rows have")} a value that cannot be read, and ${nUnreadable === 1 ? "counts as a reading" : "count as readings"} without a value. Write numbers as 1.5, or as 1,5 where semicolons separate the columns.`,
    );
  }
  if (nTaken < nRows) parts.push(`The other ${count(nRows - nTaken, "row was", "rows were")} not taken.`);
  return parts.join(" ");
}

/**
 * A panel that takes a CSV file; it is read here and sent nowhere.
 *
 * @param add Takes some rows, and returns when they are stored whether it goes on taking them.
 */
export function fileDrop(dimensions, add) {
  const told = h("p", { class: "note", role: "status" });
  let isBusy = false;
  async function feed(name, rows) {
    let nTaken = 0;
    while (nTaken < rows.length) {
      const portion = rows.slice(nTaken, nTaken + PORTION);
      if (!(await add(portion))) break;
      nTaken += portion.length;
      if (nTaken < rows.length) told.textContent = `${whole(nTaken)} of ${count(rows.length, "row")} of ${name} added so far.`;
    }
    // All of them are added: that one row cannot be read must change nothing about the others.
    const nUnreadable = rows.slice(0, nTaken).filter((row) => isUnreadable(row, dimensions)).length;
    told.textContent = describeRows(name, rows.length, nTaken, nUnreadable);
  }
  async function take(file) {
    if (!file || isBusy) return;
    isBusy = input.disabled = true;
    try {
      await feed(file.name, readTable(await file.text(), dimensions));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      told.textContent = `${file.name}: ${error.message}.`;
    } finally {
      isBusy = input.disabled = false;
      input.value = "";
    }
  }
  const input = h("input", { type: "file", accept: ".csv,.tsv,.txt,text/csv", onchange: () => take(input.files[0]) });
  const area = h("div", { class: "drop" }, h("label", {}, h("span", {}, `Or drop a CSV file with the columns ${dimensions.map(({ name }) => name).join(", ")}`), input), told);
  area.addEventListener("dragover", (event) => (event.preventDefault(), area.classList.add("over")));
  area.addEventListener("dragleave", () => area.classList.remove("over"));
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    if (!area.closest("fieldset")?.disabled) take(event.dataTransfer.files[0]);
  });
  return area;
}
