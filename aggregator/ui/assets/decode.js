// Request a decode, follow it, and show its result.

import { Problem, follow, request } from "./api.js";
import { announce, h, problemBox } from "./dom.js";
import { axesOf } from "./axes.js";
import { showResult } from "./result.js";
import { field, layOutSelection, makeSelectionControls, readSelection } from "./selection.js";
import { describeUtility } from "./statistic.js";
import { searchedWithin, share } from "./words.js";

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
export function decodePanel(study, plan, decode, signal) {
  const controls = makeControls(plan);
  const box = searchedWithin(study.search_box ?? {}, plan.dimensions);
  const start = h("button", { type: "submit", class: "main" }, "Decode");
  const cancel = h("button", { type: "button", hidden: true }, "Cancel");
  const bar = h("progress", { max: "1", value: "0", "aria-label": "Progress of the decode" });
  const progress = h("div", { class: "progress", hidden: true }, bar, h("span"));
  const place = h("div", { class: "result" });
  let running = null;

  function report({ state, progress: done, n_workers: workers }) {
    bar.value = done;
    const waits = workers === 0 ? `${state}: no worker is there; start one with "sfumato worker"` : state;
    progress.lastChild.textContent = state === "running" ? share(done) : waits;
  }

  function setBusy(busy) {
    start.disabled = busy;
    cancel.hidden = progress.hidden = !busy;
    if (busy) place.replaceChildren();
  }

  async function run(begin) {
    setBusy(true);
    report({ state: "queued", progress: 0 });
    try {
      running = await begin();
      const ended = await follow(running, report, signal);
      place.replaceChildren(await showEnd(ended, plan, signal));
      announce(`Decode ${ended.state}.`);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
    } finally {
      running = null;
      if (!signal.aborted) setBusy(false);
    }
  }

  async function create() {
    const body = readRequest(controls, plan);
    const made = await request(`/v1/studies/${study.study_id}/decodes`, { method: "POST", body, signal });
    // Reloading the page then shows the same decode.
    history.replaceState(null, "", `#studies/${study.study_id}/decodes/${made.decode_id}`);
    return made.decode_id;
  }

  cancel.addEventListener("click", async () => {
    if (running) await request(`/v1/decodes/${running}`, { method: "DELETE", signal }).catch(() => {});
  });
  const submit = (event) => {
    event.preventDefault();
    if (!start.disabled) run(create);
  };
  if (decode) run(async () => decode);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Typical patterns"),
    predict(study, plan, controls, signal),
    box && h("p", { class: "note" }, `Decodes search within ${box}.`),
    makeForm(controls, plan, submit, [start, cancel]),
    progress,
    place,
  );
}

async function showEnd(decode, plan, signal) {
  if (decode.state === "succeeded") {
    const snapshot = await request(`/v1/snapshots/${decode.snapshot_id}`, { signal });
    return showResult(decode, snapshot, plan);
  }
  if (decode.problem) return problemBox(new Problem(decode.problem, decode.problem.status));
  return h("p", { class: "empty" }, `The decode was ${decode.state}.`);
}
