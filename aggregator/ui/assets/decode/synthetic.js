// A table of synthetic records from the densities of a decode, saved with what it promises.

import { request } from "../base/api.js";
import { attempt } from "../base/attempt.js";
import { announce, h } from "../base/dom.js";
import { save, toCsv } from "../base/downloads.js";
import { count } from "../base/words.js";
import { field } from "../study/selection.js";

const PART = 20_000;
const MOST = 100_000;

/** Draw so many records, a part at a time: all but the columns, and the columns. */
async function draw(decode, { records, seed, histogram }, report, signal) {
  const columns = [];
  let about = null;
  for (let part = 0, done = 0; done < records; part += 1, done += PART) {
    const body = { n_records: Math.min(PART, records - done), seed, part, histogram };
    const { columns: found, part: _, ...rest } = await request(`/v1/decodes/${decode.decode_id}/records`, { method: "POST", body, signal });
    about ??= { ...rest, n_records: records };
    found.forEach((values, i) => (columns[i] = (columns[i] ?? []).concat(values)));
    report(Math.min(1, (done + PART) / records));
  }
  return { about, columns };
}

function rowsOf({ about, columns }) {
  const heads = about.dimensions.map(({ name }) => name);
  return [heads, ...Array.from({ length: about.n_records }, (_, i) => columns.map((values) => values[i]))];
}

const json = (object, indent) => new Blob([JSON.stringify(object, null, indent)], { type: "application/json" });

/** The files of a draw, as the command line names and fills them; a CSV file has no room for a promise. */
function fileButtons(drawn) {
  const { about, columns } = drawn;
  const whole = { ...about, columns: Object.fromEntries(about.dimensions.map(({ name }, i) => [name, columns[i]])) };
  const button = (text, onclick) => h("button", { type: "button", class: "small", onclick }, text);
  return h(
    "div",
    { class: "downloads", role: "group", "aria-label": "Downloads of the synthetic table" },
    h("span", { class: "note" }, "Download"),
    button("JSON with its promise", () => save("records.json", json(whole))),
    button("CSV", () => save("records.csv", new Blob([toCsv(rowsOf(drawn))], { type: "text/csv" }))),
    button("Promise of the CSV", () => save("records.csv.about.json", json(about, 2))),
  );
}

function show(drawn) {
  const { about } = drawn;
  return h(
    "div",
    {},
    h("p", { class: "headline", role: "status" }, `${count(about.n_records, "synthetic record")} drawn`),
    h("p", {}, about.statement),
    h("ul", { class: "note", "aria-label": "Protection" }, about.privacy.map(({ statement }) => h("li", {}, statement))),
    fileButtons(drawn),
    h("p", { class: "note" }, "JSON and the second file of CSV hold this text: keep it beside the table."),
  );
}

/** The part of a result that draws records; folded. */
export function syntheticPanel(decode, signal) {
  const controls = {
    records: h("input", { type: "number", min: "1", max: MOST, step: "1", required: true, value: "1000", inputmode: "numeric" }),
    seed: h("input", { type: "number", min: "0", step: "1", required: true, value: "0", inputmode: "numeric" }),
    histogram: h("input", { type: "text", pattern: "[0-9a-f]{64}", title: "the 64 digits of a snapshot", autocomplete: "off", spellcheck: "false" }),
  };
  const place = h("div", { class: "drawn" });
  const start = h("button", { type: "submit" }, "Draw records");
  const bar = h("progress", { max: "1", value: "0", hidden: true, "aria-label": "Progress of the draw" });

  async function submit(event) {
    event.preventDefault();
    if (start.disabled) return;
    bar.hidden = false;
    bar.value = 0;
    const wanted = { records: Number(controls.records.value), seed: Number(controls.seed.value), histogram: controls.histogram.value.trim() || null };
    await attempt(place, signal, async () => {
      const drawn = await draw(decode, wanted, (share) => (bar.value = share), signal);
      place.replaceChildren(show(drawn));
      announce(`${count(wanted.records, "synthetic record")} drawn.`);
    }, start).finally(() => (bar.hidden = true));
  }

  return h(
    "details",
    { class: "synthetic" },
    h("summary", {}, "Draw: a synthetic table"),
    h("p", { class: "note" }, "No row is a record of anybody, and any number of rows costs no further privacy. A histogram of the same records mends spikes and sharp ends of columns."),
    h(
      "form",
      { onsubmit: submit },
      h("div", { class: "fields" }, field("Records", controls.records), field("Seed", controls.seed), field("Histogram snapshot", controls.histogram)),
      h("div", { class: "buttons" }, start),
    ),
    bar,
    place,
  );
}
