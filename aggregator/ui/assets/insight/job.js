// Common parts of the answers that run as jobs: form, latest answer, words first.

import { Problem, request } from "../base/api.js";
import { factList, h, problemBox } from "../base/dom.js";
import { makeJob } from "../base/job.js";
import { rounded, share, utc, withUnit } from "../base/words.js";

export const FIRST_GUESS = 5;

export function clustersInput(plan, query) {
  const most = plan.most_clusters === "unknown" ? FIRST_GUESS : Math.min(FIRST_GUESS, plan.most_clusters);
  return h("input", { type: "number", min: "1", step: "1", required: true, value: query?.get("k") ?? most, inputmode: "numeric" });
}

/** The latest finished analysis of a kind; null without one. */
async function findLatest(study, kind, signal) {
  let page = null;
  do {
    const query = new URLSearchParams({ limit: 100, ...(page === null ? {} : { page }) });
    const found = await request(`/v1/studies/${study}/analyses?${query}`, { signal });
    const latest = found.items.find((each) => each.kind === kind && each.state === "succeeded");
    if (latest) return latest.analysis_id;
    page = found.next_page;
  } while (page !== null);
  return null;
}

/**
 * A card with a form, whose answer is an analysis.
 *
 * `readForm()` returns the request, `show(analysis)` the nodes of its result, `path` the section's address.
 */
export function analysisPanel({ context, kind, section, title, verb, lead, fields, readForm, show, runNow = false }) {
  const { study, rest, signal } = context;
  const id = study.study_id;
  const start = h("button", { type: "submit", class: "main" }, verb);
  const job = makeJob({
    what: title.toLowerCase(),
    start,
    signal,
    showEnd: async (ended) => {
      // A stream may leave out what is large.
      const whole = ended.result ? ended : await request(`/v1/analyses/${ended.analysis_id}`, { signal });
      return h("div", { class: "answer" }, show(whole), showGround(whole));
    },
  });
  /** Reloading the page then shows the same answer. */
  function pin(analysis) {
    history.replaceState(null, "", `#studies/${id}/${section}/${analysis}`);
    return `/v1/analyses/${analysis}`;
  }
  async function create() {
    const made = await request(`/v1/studies/${id}/analyses`, { method: "POST", body: { kind, ...readForm() }, signal });
    return pin(made.analysis_id);
  }
  async function open() {
    if (rest) job.run(async () => `/v1/analyses/${rest}`);
    else if (runNow) job.run(create);
    else {
      const latest = await findLatest(id, kind, signal);
      // Somebody may have pressed the button meanwhile.
      if (start.disabled) return;
      if (latest) job.run(async () => pin(latest));
      else job.place.replaceChildren(h("p", { class: "empty" }, "Nobody has asked for this yet."));
    }
  }
  open().catch((error) => {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    job.place.replaceChildren(problemBox(error));
  });
  const submit = (event) => {
    event.preventDefault();
    if (!start.disabled) job.run(create);
  };
  const node = h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    h("p", { class: "note" }, lead),
    h("form", { onsubmit: submit }, fields, h("div", { class: "buttons" }, start, job.cancel)),
    job.progress,
    job.place,
  );
  return { node, job };
}

/** The sentences of an answer, its doubts first. */
export function showWords({ words }, tone = "") {
  if (!words?.length) return null;
  const [first, ...others] = words;
  return h("div", { class: `verdict ${tone}`, role: "status" }, h("p", { class: "headline" }, first), others.length > 0 && h("ul", { class: "plain" }, others.map((text) => h("li", {}, text))));
}

/** On what an answer rests. */
function showGround({ request: asked, result, finished, n_clusters: k = asked?.n_clusters }) {
  if (!result) return null;
  return h(
    "details",
    {},
    h("summary", {}, "What this rests on"),
    result.assumptions?.length > 0 && h("ul", {}, result.assumptions.map((text) => h("li", {}, text))),
    factList([
      ["Clusters", rounded(k)],
      ["Seed", String(asked?.seed ?? "–")],
      ["Finished", finished ? utc(new Date(finished)) : "–"],
      ["Snapshots", (result.snapshots ?? []).map((each) => h("code", { class: "identity" }, each))],
    ]),
  );
}

/** A cluster in figures: its share and centre. */
export function describeCluster({ weight, centre }, dimensions) {
  return `${share(weight, 0)}: ${centre.map((value, i) => `${dimensions[i].name} ${rounded(Number(value.toPrecision(3)))}${dimensions[i].unit === "1" ? "" : ` ${dimensions[i].unit}`}`).join(", ")}`;
}

export const dimensionName = (dimensions, name) => {
  const found = dimensions.find((each) => each.name === name);
  return name === null ? "share" : found ? withUnit(found) : name;
};
