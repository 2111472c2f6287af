// Freeze a selection of a study that is not decoded, and show its answer.

import { Problem, request } from "../base/api.js";
import { attempt } from "../base/attempt.js";
import { announce, h, warningList } from "../base/dom.js";
import { downloadButtons } from "../base/downloads.js";
import { describeExcluded, describeSource, layOutSelection, makeSelectionControls, readSelection } from "../study/selection.js";
import { describeUtility } from "../study/statistic.js";
import { calibrationPanel, canCalibrate } from "./calibration.js";
import { showClusters } from "./clusters.js";
import { showComponents } from "./components.js";
import { listClusters, listHistogram, listMoments } from "./files.js";
import { showHistogram } from "./histogram.js";

const TITLES = { histogram: "Distributions", moments: "Correlations and directions", clusters: "Measured clusters" };
const SHOWN = { histogram: (answer, plan, columns) => showHistogram(answer, columns, plan), moments: showComponents, clusters: showClusters };
const LISTED = { histogram: listHistogram, moments: listMoments, clusters: listClusters };

async function showAnswer(id, study, plan, signal) {
  const path = `/v1/snapshots/${id}`;
  const { kind } = plan.statistic;
  const isPilot = kind === "histogram" && canCalibrate(plan);
  const calibration = isPilot ? calibrationPanel(study, plan, id, signal) : null;
  const [snapshot, answer, calibrated] = await Promise.all([
    request(path, { signal }),
    request(`${path}/${kind}`, { signal }),
    calibration?.ready,
  ]);
  if (snapshot.study_id !== study.study_id) {
    throw new Problem({ title: "The snapshot is of another study", field: "address", rule: "must name a snapshot of this study", fix: "press “Show”" });
  }
  return h(
    "div",
    {},
    h("p", {}, describeSource(snapshot, plan)),
    warningList(describeExcluded(snapshot, "show it again")),
    calibrated?.refusal && h("p", { class: "verdict bad", role: "status" }, h("strong", {}, "Weak"), `: ${calibrated.refusal}.`),
    SHOWN[kind](answer, plan, calibrated?.columns ?? []),
    downloadButtons(kind, { data: () => answer, rows: () => LISTED[kind](answer, plan) }),
    calibration?.node,
    h("p", { class: "note" }, answer.privacy.statement),
  );
}

/** The card of a study that is not decoded: a `snapshot`, or that of all sketches now, before the form. */
export function answersPanel(study, plan, snapshot, signal) {
  const title = TITLES[plan.statistic.kind];
  const controls = makeSelectionControls(plan);
  const start = h("button", { type: "submit", class: "main" }, "Show");
  const utility = h("p", { class: "prediction", "aria-live": "polite" });
  const place = h("div", { class: "result" });

  let turn = 0;
  async function run(begin, button = null) {
    const mine = (turn += 1);
    place.replaceChildren(h("p", { class: "empty" }, "…"));
    await attempt(place, signal, async () => {
      const shown = await showAnswer(await begin(), study, plan, signal);
      // Somebody may have asked for another meanwhile.
      if (mine !== turn) return;
      place.replaceChildren(shown);
      announce(`${title} shown.`);
    }, button);
  }

  async function freeze() {
    const body = readSelection(controls, plan);
    const made = await request(`/v1/studies/${study.study_id}/snapshots`, { method: "POST", body, signal });
    // Reloading the page then shows the same sketches.
    history.replaceState(null, "", `#studies/${study.study_id}/snapshots/${made.snapshot_id}`);
    return made.snapshot_id;
  }

  request(`/v1/studies/${study.study_id}/utility`, { signal })
    .then((found) => utility.append(describeUtility(found, plan)))
    .catch((error) => {
      if (!signal.aborted && !(error instanceof Problem)) throw error;
    });
  if (!snapshot && !study.n_sketches) place.append(h("p", { class: "empty" }, "No device has sent a sketch yet, so there is nothing to show."));
  else run(snapshot ? async () => snapshot : freeze);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    place,
    h(
      "details",
      { class: "asking", open: !study.n_sketches },
      h("summary", {}, "Show other sketches"),
      utility,
      h(
        "form",
        {
          onsubmit: (event) => {
            event.preventDefault();
            run(freeze, start);
          },
        },
        h("div", { class: "fields" }, layOutSelection(controls)),
        h("div", { class: "buttons" }, start),
      ),
    ),
  );
}
