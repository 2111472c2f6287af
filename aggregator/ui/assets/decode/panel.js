// Request a decode, follow it, and show its result.

import { Problem, request } from "../base/api.js";
import { axesOf } from "../base/axes.js";
import { h } from "../base/dom.js";
import { jobCard } from "../base/job.js";
import { makeSchedules } from "../base/repeat.js";
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

/** The card of the decodes; `decode` is an existing decode to show first. */
export function decodePanel({ study, plan, rest: decode, scope, signal }, onended) {
  const controls = makeControls(plan);
  const path = `/v1/studies/${study.study_id}/decodes`;
  const schedules = makeSchedules(study, "decode", signal);
  const box = searchedWithin(study.search_box ?? {}, plan.dimensions);
  return jobCard({
    title: "Typical patterns",
    what: "decode",
    verb: "Decode",
    again: "Decode other sketches, or another number of clusters",
    none: "Nothing was decoded yet. Choose k and press “Decode”.",
    asking: (buttons, onsubmit) => [
      predict(study, plan, controls, signal),
      box && h("p", { class: "note" }, `Decodes search within ${box}.`),
      h(
        "form",
        { onsubmit },
        h("div", { class: "fields" }, field("Clusters k", controls.k), layOutSelection(controls), field("Repeat", schedules.every)),
        !isGrid(plan) && h("label", { class: "check" }, controls.choose, h("span", {}, "Try every number of clusters up to k and recommend one")),
        buttons,
        schedules.place,
      ),
    ],
    showEnd: async (ended) => {
      const snapshot = await request(`/v1/snapshots/${ended.snapshot_id}`, { signal });
      return showResult(ended, snapshot, plan, { study, scope, signal });
    },
    stored: decode ? `/v1/decodes/${decode}` : null,
    latest: { path, fits: () => true, ofSchedule: schedules.findLatest },
    // Reloading the page then shows the same decode.
    pin: ({ decode_id: id }) => {
      history.replaceState(null, "", `#studies/${study.study_id}/decodes/${id}`);
      return `/v1/decodes/${id}`;
    },
    create: async () => {
      const wanted = readRequest(controls, plan);
      const { selection, ...others } = wanted;
      return schedules.begin({ ...others, ...selection }, () => request(path, { method: "POST", body: wanted, signal }));
    },
    onended,
    signal,
  });
}
