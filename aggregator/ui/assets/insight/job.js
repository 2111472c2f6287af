// Common parts of the answers that run as jobs: form, latest answer, words first.

import { request } from "../base/api.js";
import { factList, h } from "../base/dom.js";
import { jobCard } from "../base/job.js";
import { rounded, share, utc } from "../base/words.js";

export const FIRST_GUESS = 5;

export function clustersInput(plan, query) {
  const most = plan.most_clusters === "unknown" ? FIRST_GUESS : Math.min(FIRST_GUESS, plan.most_clusters);
  return h("input", { type: "number", min: "1", step: "1", required: true, value: query?.get("k") ?? most, inputmode: "numeric" });
}

/**
 * A card whose answer is an analysis.
 *
 * `readForm()` returns the request, `show(analysis)` the nodes of its result, `section` the section's address.
 */
export function analysisPanel({ context, kind, section, title, verb, again, lead, fields, readForm, show, schedules = null, runNow = false }) {
  const { study, rest, signal } = context;
  const path = `/v1/studies/${study.study_id}/analyses`;
  return jobCard({
    title,
    verb,
    again,
    none: `Nobody has asked for this yet. Press “${verb}”.`,
    asking: (buttons, onsubmit) => [h("p", { class: "note" }, lead), h("form", { onsubmit }, fields, buttons, schedules?.place)],
    showEnd: async (ended) => {
      // A stream may leave out what is large.
      const whole = ended.result ? ended : await request(`/v1/analyses/${ended.analysis_id}`, { signal });
      return h("div", { class: "answer" }, show(whole), showGround(whole));
    },
    stored: rest ? `/v1/analyses/${rest}` : null,
    latest: { path, fits: (each) => each.kind === kind, ofSchedule: schedules?.findLatest },
    // Reloading the page then shows the same answer.
    pin: ({ analysis_id: id }) => {
      history.replaceState(null, "", `#studies/${study.study_id}/${section}/${id}`);
      return `/v1/analyses/${id}`;
    },
    create: async () => {
      const wanted = readForm();
      const ask = () => request(path, { method: "POST", body: { kind, ...wanted }, signal });
      return schedules ? schedules.begin(wanted, ask) : ask();
    },
    runNow,
    signal,
  });
}

// The server's sentences for programs and mail; the page says these things in units, and names the rest below.
const FIGURES = /\bscales?\b|signal-to-noise|\bp [=<]|\(error |^changes?: /i;

/** The caveats among the sentences of an answer. */
export const caveatsOf = ({ words, assumptions = [] }) => words.filter((text) => !FIGURES.test(text) && !assumptions.includes(text));

/** The finding, and what else there is to say, its caveats last. */
export function showWords([first, ...others], tone = "") {
  if (!first) return null;
  return h("div", { class: `verdict ${tone}`, role: "status" }, h("p", { class: "headline" }, first), others.length > 0 && h("ul", { class: "plain" }, others.map((text) => h("li", {}, text))));
}

/** On what an answer rests. */
function showGround({ request: asked, result, finished, n_clusters: k = asked?.n_clusters }) {
  if (!result) return null;
  return h(
    "details",
    {},
    h("summary", {}, "How this was computed"),
    h("p", { class: "note" }, "A size says by how many of the plan's scales every record would have to move to look like this; a chance, how often noise alone makes such a difference. The answer in full, as programs and mails have it:"),
    h("ul", {}, result.words.map((text) => h("li", {}, text))),
    result.assumptions?.length > 0 && h("ul", {}, result.assumptions.map((text) => h("li", {}, text))),
    factList([
      ["Clusters", rounded(k)],
      ["Seed", String(asked?.seed ?? "–")],
      ["Finished", finished ? utc(new Date(finished)) : "–"],
      ["Snapshots", (result.snapshots ?? []).map((each) => h("code", { class: "identity" }, each))],
    ]),
  );
}

/** A cluster in words and figures: its share and centre. */
export function describeCluster({ words, weight, centre }, dimensions) {
  return `${words ? `${words}, ` : ""}${share(weight, 0)}: ${centre.map((value, i) => `${dimensions[i].name} ${rounded(Number(value.toPrecision(3)))}${dimensions[i].unit === "1" ? "" : ` ${dimensions[i].unit}`}`).join(", ")}`;
}
