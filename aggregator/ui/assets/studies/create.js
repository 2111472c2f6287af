// Create a study from a name and a plan, for operators.

import { Problem, request } from "../base/api.js";
import { attempt } from "../base/attempt.js";
import { h, named, problemBox, warningList } from "../base/dom.js";
import { field } from "../study/selection.js";

const MOST_BYTES = 1_000_000;

function readPlan(text) {
  const refuse = (rule) => new Problem({ title: "The plan cannot be read", field: "plan", rule, fix: "paste the JSON that “sfumato plan show PLAN --json” or “sfumato plan new PLAN.toml” prints" });
  let plan;
  try {
    plan = JSON.parse(text);
  } catch (error) {
    throw refuse(`must be JSON: ${error.message}`);
  }
  if (plan === null || typeof plan !== "object" || Array.isArray(plan)) throw refuse("must be a JSON object");
  // The file of a study holds its plan as a member.
  return plan.plan ?? plan;
}

/** What a form does that creates a study: it shows in a place what came of it. */
export function creating(start, place, signal, read) {
  return async (event) => {
    event.preventDefault();
    await attempt(place, signal, async () => {
      const made = await request("/v1/studies", { method: "POST", body: read(), signal });
      place.replaceChildren(
        h("p", { class: "verdict good", role: "status" }, "Created: ", h("a", { href: `#studies/${made.study_id}` }, named(made.name)), "."),
        warningList(made.warnings, "Doubts about the plan") || "",
      );
      place.querySelector("a").focus();
    }, start);
  };
}

/** A folded form, and a function that fills a plan in. */
export function createPanel(signal) {
  const name = h("input", { type: "text", required: true, maxlength: "200", autocomplete: "off", dir: "auto" });
  const plan = h("textarea", { rows: "8", required: true, spellcheck: "false", autocomplete: "off" });
  const file = h("input", { type: "file", accept: ".json,application/json" });
  const same = h("input", { type: "checkbox" });
  const start = h("button", { type: "submit", class: "main" }, "Create the study");
  const place = h("div");

  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) {
      place.replaceChildren(problemBox(new Problem({ title: "The file is too large", field: "plan", rule: "must be at most 1 MB", fix: "choose the file of a plan" })));
      return;
    }
    plan.value = await chosen.text();
    place.replaceChildren();
  });

  const create = creating(start, place, signal, () => ({ name: name.value.trim(), plan: readPlan(plan.value), allow_same_plan: same.checked }));

  const folded = h(
    "details",
    { class: "plain" },
    h("summary", {}, h("h2", {}, "Create a study")),
    h("p", { class: "note" }, "A plan is public and never changes: it fixes what devices compute and how much noise they add. “Plan a study” finds a good one, and so does “sfumato plan advise”."),
    h(
      "form",
      { onsubmit: create },
      h("div", { class: "fields" }, field("Name", name), field("Plan from a file", file, "JSON")),
      h("label", { class: "area" }, h("span", {}, "Plan (JSON)"), plan),
      h("label", { class: "check" }, same, h("span", {}, "Create it even if another study has this plan; a device in both spends its budget twice")),
      h("div", { class: "buttons" }, start),
    ),
    place,
  );
  function fill(document) {
    plan.value = JSON.stringify(document, null, 2);
    folded.open = true;
    name.focus();
    folded.scrollIntoView({ block: "center" });
  }
  return { node: h("section", { class: "card" }, folded), fill };
}
