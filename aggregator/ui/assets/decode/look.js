// A second look: show the centres of a result to devices again, after what it will give and cost is said.

import { request } from "../base/api.js";
import { attempt } from "../base/attempt.js";
import { announce, h, table } from "../base/dom.js";
import { count, rounded, share, whole } from "../base/words.js";
import { creating } from "../studies/create.js";
import { makeColumns } from "../studies/plan.js";
import { field } from "../study/selection.js";

const GIVES = { measure: "numbers and spreads alone", refine: "means of its columns too", profile: "means of others too" };
const RECORDS = { other: "other records", same: "the same records" };

const choice = (options, value) => h("select", {}, Object.entries(options).map(([each, text]) => h("option", { value: each, selected: each === value }, text)));
const twice = (error) => (2 * error < 1 ? `±${share(2 * error, 2)}` : "over ±100%");

/** The error of each share and mean, two standard deviations. */
function showErrors({ shares_error: shares, means_error: means, summed }) {
  const rows = shares.map((error, i) => [whole(i + 1), twice(error), ...means[i].map((each) => `±${rounded(2 * each)}`)]);
  return table("Errors of each cluster, in the order of the result", ["Cluster", "Share", ...summed.map((name) => `Mean of ${name}`)], rows, { numeric: rows[0].map((_, i) => i).slice(1) });
}

function showOutlook({ pays, statements }) {
  const [tone, words] = pays === false ? ["poor", "To refine does not pay"] : pays ? ["good", "To refine pays"] : ["fair", "It measures; centroids stay as they are, or nobody can tell whether they gain"];
  return h("div", { class: `verdict ${tone}`, role: "status" }, h("p", { class: "headline" }, `${words}.`), h("ul", {}, statements.map((text) => h("li", {}, text))));
}

/** The form that creates the study of a planned look, for operators. */
function creation(planned, name, signal) {
  const input = h("input", { type: "text", required: true, maxlength: "200", autocomplete: "off", dir: "auto", value: name });
  const start = h("button", { type: "submit", class: "main" }, "Create the study");
  const place = h("div");
  const create = creating(start, place, signal, () => ({ name: input.value.trim(), plan: planned.plan }));
  return h("form", { onsubmit: create }, h("div", { class: "fields" }, field("Name of the study", input)), h("p", { class: "note" }, "Whoever joins it spends its epsilon."), h("div", { class: "buttons" }, start), place);
}

/** The part of a result that plans a second look; folded. `study` has the name that a look's begins with. */
export function lookPanel(decode, study, scope, signal) {
  const columns = makeColumns({ hasSpread: false });
  const controls = {
    aim: choice({ measure: "measure", refine: "refine", profile: "profile" }, "refine"),
    records: choice(RECORDS, "other"),
    epsilon: h("input", { type: "text", required: true, value: decode.result.privacy.epsilon, inputmode: "decimal", autocomplete: "off", maxlength: "50" }),
    delta: h("input", { type: "text", required: true, value: "0", inputmode: "decimal", autocomplete: "off", maxlength: "50" }),
  };
  const gives = h("small", { "aria-live": "polite" });
  const isProfile = () => controls.aim.value === "profile";
  function unfold() {
    gives.textContent = GIVES[controls.aim.value];
    columns.list.hidden = columns.button.hidden = !isProfile();
    // What is hidden must not keep the form from being sent.
    for (const input of columns.list.querySelectorAll("input, select")) input.disabled = !isProfile();
  }
  controls.aim.addEventListener("change", unfold);
  unfold();
  const start = h("button", { type: "submit" }, "What would it give?");
  const place = h("div", { class: "result" });

  async function plan(event) {
    event.preventDefault();
    const asked = {
      aim: controls.aim.value,
      epsilon: controls.epsilon.value.trim(),
      delta: controls.delta.value.trim(),
      same_records: controls.records.value === "same",
      columns: isProfile() ? columns.read() : [],
    };
    await attempt(place, signal, async () => {
      const planned = await request(`/v1/decodes/${decode.decode_id}/look`, { method: "POST", body: asked, signal });
      place.replaceChildren(
        showOutlook(planned),
        showErrors(planned),
        h("p", { class: "note" }, "± are two standard deviations of the noise."),
        scope === "operator" ? creation(planned, `${study.name} look`, signal) : h("p", { class: "note" }, "An operator's key creates its study."),
      );
      announce(place.querySelector(".headline").textContent);
    }, start);
  }

  return h(
    "details",
    { class: "look" },
    h("summary", {}, "Look again: show these centres to the devices"),
    h("p", { class: "note" }, `Devices put each record to the nearest of the ${count(decode.result.weights.length, "centre")} and release, with exact noise, what they add up to: shares, spreads and means are then measured, not predicted. It costs epsilon; what it would give is said first, and spends nothing.`),
    h(
      "form",
      { onsubmit: plan },
      h("div", { class: "fields" }, h("label", {}, h("span", {}, "It shall"), controls.aim, gives), field("It reads", controls.records), field("Epsilon of a record", controls.epsilon), field("Delta", controls.delta, "0 for pure epsilon")),
      columns.list,
      h("div", { class: "buttons" }, columns.button, start),
    ),
    place,
  );
}
