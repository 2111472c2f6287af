// The planner: what a study would give, before it exists, and the best plan for it.

import { request } from "../base/api.js";
import { attempt } from "../base/attempt.js";
import { save } from "../base/downloads.js";
import { announce, h, warningList } from "../base/dom.js";
import { count, rounded, whole } from "../base/words.js";
import { field } from "../study/selection.js";

const WINDOWS = { 3600: "an hour", 86400: "a day", 604800: "a week", 2419200: "four weeks", 7776000: "90 days" };
const OUTLOOKS = {
  good: ["good", "This study would work"],
  weak: ["poor", "This study would give rough answers"],
  hopeless: ["bad", "Do not run this: its answers would be noise"],
};

const number = (value, more = {}) => h("input", { type: "number", required: true, value, inputmode: "decimal", ...more });

/** One column of the records; without a spread it is one of a plan, and not of advice. */
function makeColumn(remove, { hasSpread = true } = {}) {
  const inputs = {
    name: h("input", { type: "text", required: true, maxlength: "200", autocomplete: "off", dir: "auto" }),
    unit: h("input", { type: "text", maxlength: "200", autocomplete: "off", placeholder: "none" }),
    lower: number("", { step: "any" }),
    upper: number("", { step: "any" }),
    scale: h("select", {}, h("option", { value: "linear" }, "linear"), h("option", { value: "log" }, "logarithmic")),
    resolution: number("1", { step: "any", min: "0" }),
    spread: number("", { step: "any", required: false, placeholder: "usual" }),
  };
  const resolution = field("Alike below", inputs.resolution);
  const spread = field("Spread in a cluster", inputs.spread);
  const isLog = () => inputs.scale.value === "log";
  function bend() {
    resolution.hidden = inputs.resolution.disabled = !isLog();
    spread.firstChild.textContent = isLog() ? "Spread in a cluster, doublings" : "Spread in a cluster";
  }
  inputs.scale.addEventListener("change", bend);
  bend();
  const node = h(
    "fieldset",
    { class: "column" },
    h("legend", { class: "unseen" }, "A column"),
    h(
      "div",
      { class: "fields" },
      field("Column", inputs.name),
      field("Unit", inputs.unit),
      field("Lowest value", inputs.lower),
      field("Highest value", inputs.upper),
      field("Scale", inputs.scale),
      resolution,
      hasSpread && spread,
      h("div", { class: "buttons end" }, h("button", { type: "button", class: "small", onclick: () => remove(node) }, "Remove")),
    ),
  );
  const read = () => ({
    name: inputs.name.value.trim(),
    unit: inputs.unit.value.trim() || "1",
    lower: Number(inputs.lower.value),
    upper: Number(inputs.upper.value),
    ...(hasSpread && { spread: inputs.spread.value === "" ? null : Number(inputs.spread.value) }),
    transform: isLog() ? { kind: "log", resolution: Number(inputs.resolution.value) } : null,
  });
  return { node, read };
}

/** A list of columns, which has one at least, and what adds and reads them. */
export function makeColumns(options) {
  const columns = [];
  const list = h("div");
  function remove(node) {
    if (columns.length === 1) return;
    columns.splice(columns.findIndex((each) => each.node === node), 1);
    node.remove();
  }
  function add() {
    const column = makeColumn(remove, options);
    columns.push(column);
    list.append(column.node);
    return column;
  }
  add();
  const button = h("button", { type: "button", onclick: () => add().node.querySelector("input").focus() }, "Add a column");
  return { list, button, read: () => columns.map(({ read }) => read()) };
}

/** What would help, a sentence each. */
function listRemedies({ epsilon, records_per_window: records, n_sketches: sketches, n_clusters: k }, asked) {
  return [
    sketches !== null && `${whole(Math.ceil(sketches / asked.n_windows))} devices instead of ${whole(asked.n_devices)}, or ${whole(Math.ceil(sketches / asked.n_devices))} windows instead of ${whole(asked.n_windows)}`,
    records !== null && `${whole(records)} records in a window instead of ${whole(asked.records_per_window)}`,
    epsilon !== null && `epsilon ${epsilon}, which protects less`,
    k !== null && `at most ${count(k, "cluster")}`,
  ].filter(Boolean);
}

const isOpen = ({ release, max_records_per_person: most }) => release.unit === "record" && most === "unknown";

function show(found, asked, fill) {
  const [tone, words] = OUTLOOKS[found.outlook];
  const remedies = found.remedies ? listRemedies(found.remedies, asked) : [];
  return h(
    "div",
    {},
    h(
      "div",
      { class: `verdict ${tone}`, role: "status" },
      h("p", { class: "headline" }, `${words}: ${found.band.statement}.`),
      h("p", {}, `1 is k-means on the raw records. It supports ${found.clusters}. Signal to noise of all sketches together: ${rounded(found.snr)}. A sketch has ${whole(found.sketch_bytes)} bytes.`),
    ),
    remedies.length > 0 && [h("h3", {}, "What would help, each by itself"), h("ul", {}, remedies.map((each) => h("li", {}, each)))],
    found.remedies && !remedies.length && h("p", {}, "None of more records, devices, epsilon or fewer clusters alone would help."),
    h("h3", {}, "What a person is promised"),
    isOpen(found.plan) && warningList(["nobody knows how much this protects a person. State the most records of one person in a window, or protect all records of a device."]),
    h("blockquote", {}, found.statement),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: () => save("plan.json", new Blob([JSON.stringify(found.plan, null, 2)], { type: "application/json" })) }, "Download the plan"),
      fill && found.outlook !== "hopeless" && h("button", { type: "button", class: "main", onclick: () => fill(found.plan) }, "Create a study of it"),
    ),
    h("details", {}, h("summary", {}, "The plan as JSON"), h("pre", { class: "command" }, JSON.stringify(found.plan, null, 2))),
  );
}

/** A folded form; `fill(plan)` hands the plan on, for operators. */
export function planPanel(signal, fill = null) {
  const columns = makeColumns();
  const positive = { min: "1", step: "1", inputmode: "numeric" };
  const inputs = {
    n_clusters: number(5, { ...positive, max: "200" }),
    n_devices: number(100, positive),
    n_windows: number(1, positive),
    records_per_window: number(1000, positive),
  };
  const length = h("select", {}, Object.entries(WINDOWS).map(([value, text]) => h("option", { value, selected: value === "86400" }, text)));
  const unit = h("select", {}, h("option", { value: "record" }, "each record"), h("option", { value: "device" }, "all records of a device in a window"));
  const person = number("", { ...positive, required: false, placeholder: "unknown" });
  const ofPerson = field("Records of one person in a window, at most", person);
  unit.addEventListener("change", () => {
    ofPerson.hidden = person.disabled = unit.value === "device";
  });
  const epsilon = h("input", { type: "text", required: true, value: "1", inputmode: "decimal", autocomplete: "off" });
  const start = h("button", { type: "submit", class: "main" }, "Predict");
  const place = h("div", { class: "result" });

  async function predict(event) {
    event.preventDefault();
    const asked = {
      dimensions: columns.read(),
      ...Object.fromEntries(Object.entries(inputs).map(([name, { value }]) => [name, Number(value)])),
      window_s: Number(length.value),
      unit: unit.value,
      max_records_per_person: person.disabled || person.value === "" ? null : Number(person.value),
      epsilon: epsilon.value.trim(),
    };
    await attempt(place, signal, async () => {
      const found = await request("/v1/advice", { method: "POST", body: asked, signal });
      place.replaceChildren(show(found, asked, fill));
      announce(place.querySelector(".headline").textContent);
    }, start);
  }

  return h(
    "section",
    { class: "card" },
    h(
      "details",
      { class: "plain planner" },
      h("summary", {}, h("h2", {}, "Plan a study")),
      h("p", { class: "note" }, "What would a study give? Bounds are public: state what is physically possible, never what you saw in the data. A logarithmic scale suits values over powers of ten, where twice as much matters alike for small and large ones; values that differ by less than “alike below” are alike. Nothing is stored. Pilots, categories and usual ranges are in “sfumato plan”."),
      h(
        "form",
        { onsubmit: predict },
        columns.list,
        h("div", { class: "buttons" }, columns.button),
        h(
          "div",
          { class: "fields" },
          field("Clusters k, at most", inputs.n_clusters),
          field("Devices", inputs.n_devices),
          field("Records in a window", inputs.records_per_window),
          field("A window lasts", length),
          field("Windows decoded together", inputs.n_windows),
          field("Protected", unit),
          ofPerson,
          field("Epsilon", epsilon),
        ),
        h("div", { class: "buttons" }, start),
      ),
      place,
    ),
  );
}
