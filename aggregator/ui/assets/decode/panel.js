// Request a decode, follow it, and show its result.

import { Problem, request } from "../base/api.js";
import { axesOf } from "../base/axes.js";
import { h } from "../base/dom.js";
import { makeJob } from "../base/job.js";
import { showResult } from "./result.js";
import { field, layOutSelection, makeSelectionControls, readSelection } from "../study/selection.js";
import { describeUtility } from "../study/statistic.js";
import { searchedWithin } from "../base/words.js";

const FIRST_GUESS = 5;
const isGrid = (plan) => plan.statistic.kind === "grid";

function makeControls(plan) {
  const axes = axesOf(plan.dimensions).length;
  const most = isGrid(plan) ? FIRST_GUESS : Math.floor((2 * plan.statistic.n_frequencies) / (axes + 1));
  const guess = Math.max(1, Math.min(FIRST_GUESS, most));
  const controls = {
    k: h("input", { type: "number", min: "1", step: "1", required: true, value: guess, inputmode: "numeric" }),
    choose: h("input", { type: "checkbox" }),
    ...makeSelectionControls(plan),
  };
  return controls;
}

function readRequest(controls, plan) {
  return {
    n_clusters: Number(controls.k.value),
    selection: readSelection(controls, plan),
    settings: controls.choose.checked ? { choose: true } : {},
  };
}

function makeForm(controls, plan, onsubmit, buttons) {
  return h(
    "form",
    { onsubmit },
    h(
      "div",
      { class: "fields" },
      field("Clusters k", controls.k),
      layOutSelection(controls),
    ),
    !isGrid(plan) && h("label", { class: "check" }, controls.choose, h("span", {}, "Try every number of clusters up to k and recommend one")),
    h("div", { class: "buttons" }, buttons),
  );
}

/** Update the prediction beside the form when k changes. */
function predict(study, plan, controls, signal) {
  const words = h("p", { class: "prediction", "aria-live": "polite" });
  let latest = 0;
  async function update() {
    const turn = (latest += 1);
    if (!controls.k.reportValidity()) return;
    const path = `/v1/studies/${study.study_id}/utility${isGrid(plan) ? "" : `?n_clusters=${Number(controls.k.value)}`}`;
    const text = await request(path, { signal }).then((utility) => describeUtility(utility, plan), (error) => {
      if (!(error instanceof Problem)) return "";
      return `No prediction: ${error.field ?? ""} ${error.rule}.`;
    });
    if (turn === latest) words.textContent = text;
  }
  controls.k.addEventListener("change", update);
  update();
  return words;
}

/** The card with form, progress and result; `decode` is an existing decode to show at once. */
export function decodePanel({ study, plan, rest: decode, scope, signal }, onended) {
  const controls = makeControls(plan);
  const box = searchedWithin(study.search_box ?? {}, plan.dimensions);
  const start = h("button", { type: "submit", class: "main" }, "Decode");
  const job = makeJob({
    what: "decode",
    start,
    signal,
    showEnd: async (ended) => {
      const snapshot = await request(`/v1/snapshots/${ended.snapshot_id}`, { signal });
      return showResult(ended, snapshot, plan, { study, scope, signal });
    },
  });

  async function create() {
    const body = readRequest(controls, plan);
    const made = await request(`/v1/studies/${study.study_id}/decodes`, { method: "POST", body, signal });
    // Reloading the page then shows the same decode.
    history.replaceState(null, "", `#studies/${study.study_id}/decodes/${made.decode_id}`);
    return `/v1/decodes/${made.decode_id}`;
  }

  const submit = (event) => {
    event.preventDefault();
    if (!start.disabled) job.run(create).then(onended);
  };
  if (decode) job.run(async () => `/v1/decodes/${decode}`);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Typical patterns"),
    predict(study, plan, controls, signal),
    box && h("p", { class: "note" }, `Decodes search within ${box}.`),
    makeForm(controls, plan, submit, [start, job.cancel]),
    job.progress,
    job.place,
  );
}
