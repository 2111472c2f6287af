// One study: its head, its sections, and the section that the address names.

import { answersPanel } from "../answers/card.js";
import { Problem, request } from "../base/api.js";
import { h, identity, problemBox, table } from "../base/dom.js";
import { count, stateOf, whole } from "../base/words.js";
import { historyPanel } from "../decode/history.js";
import { decodePanel } from "../decode/panel.js";
import { comparePanel } from "../insight/compare.js";
import { groupsPanel } from "../insight/groups.js";
import { healthPanel } from "../insight/health.js";
import { timelinePanel } from "../insight/timeline.js";
import { pill, when } from "../studies/list.js";
import { batchesPanel } from "./batches.js";
import { campaignPanel } from "./campaign.js";
import { devicesPanel } from "./devices.js";
import { managePanel } from "./manage.js";
import { showPlan } from "./plan.js";

const DECODED = ["fourier", "grid"];

function tile(name, value) {
  return h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value));
}

function showSummary(study) {
  return [
    h("p", { class: "back" }, h("a", { href: "#studies" }, "← All studies")),
    h("h1", { tabindex: "-1", dir: "auto" }, study.name),
    h("p", { class: "under" }, pill(study.state, stateOf(study)), identity(study.study_id)),
    h(
      "dl",
      { class: "tiles" },
      tile("Devices", whole(study.n_devices)),
      tile("Sketches", whole(study.n_sketches)),
      tile("Records", whole(study.n_records)),
      tile("Last sketch", when(study.last_arrival)),
    ),
  ];
}

function renderRefusals({ items, plan_refusals: owners }) {
  const known = /^[a-z0-9-]+$/;
  const rows = [
    ...items.map(({ problem, count: number }) => [
      known.test(problem) ? h("a", { href: `/problems/${problem}` }, problem) : problem,
      "this server",
      count(number, "sketch", "sketches"),
    ]),
    ...owners.map(({ rule, n_devices: number }) => [rule, "owners, who refuse the plan", count(number, "device")]),
  ];
  if (!rows.length) return h("p", { class: "empty" }, "Nothing was refused.");
  return table("Refusals", ["Reason", "Refused by", "Count"], rows, { numeric: [2] });
}

/** A card whose content is loading; a problem replaces content that cannot be loaded. */
export function section(title, content, signal) {
  const place = h("div", {}, h("p", { class: "empty" }, "…"));
  content
    .then((node) => place.replaceChildren(node))
    .catch((error) => {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
    });
  return h("section", { class: "card" }, h("h2", {}, title), place);
}

function patterns(context) {
  const { study, rest, signal } = context;
  const { plan } = context.plan;
  if (!DECODED.includes(plan.statistic.kind)) return [answersPanel(study, plan, rest, signal)];
  const past = historyPanel(study, signal);
  return [decodePanel({ ...context, plan }, past.reload), past.node];
}

/** A link to the devices of the campaign's sketch: those of a pilot or a look cannot be compared. */
function referToSketch({ study, signal }) {
  const found = request(`/v1/studies/${study.study_id}/campaign`, { signal }).then(({ phases }) => {
    const { study_id: id } = phases.find(({ name }) => name === "sketch");
    return h("p", {}, "Devices are compared by ", id ? h("a", { href: `#studies/${id}/devices` }, "the sketch of this campaign") : "the sketch of this campaign, which is to come", ".");
  });
  return section("Devices that differ", found, signal);
}

function comparedDevices(context) {
  const { plan } = context.plan;
  if (DECODED.includes(plan.statistic.kind)) return healthPanel(context);
  // A key of one study does not see the other phases.
  return plan.campaign && !context.isBound && referToSketch(context);
}

const SECTIONS = [
  { name: "patterns", title: "Patterns", show: patterns },
  { name: "time", title: "Over time", decoded: true, show: timelinePanel },
  { name: "compare", title: "Compare", decoded: true, show: comparePanel },
  { name: "groups", title: "Groups", decoded: true, show: groupsPanel },
  {
    name: "devices",
    title: "Devices",
    show: (context) => [
      context.scope !== "viewer" && devicesPanel(context),
      context.scope === "operator" && comparedDevices(context),
      section("Refusals", request(`/v1/studies/${context.study.study_id}/refusals`, { signal: context.signal }).then(renderRefusals), context.signal),
    ],
  },
  { name: "batches", title: "Batches", summed: true, show: batchesPanel },
  { name: "plan", title: "Plan", show: ({ plan, privacy }) => [showPlan(plan, privacy)] },
  { name: "manage", title: "Manage", operator: true, show: managePanel },
];

function tabs(study, sections, current) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Sections of the study" },
    sections.map(({ name, title }) =>
      h("a", { href: `#studies/${study}${name === "patterns" ? "" : `/${name}`}`, "aria-current": name === current && "page" }, title),
    ),
  );
}

/** Show a study; `rest` is a decode, a snapshot or an analysis of it, to show at once. */
export async function showStudy({ id, name, rest, query, scope, isBound }, signal) {
  const path = `/v1/studies/${id}`;
  const [study, plan, privacy] = await Promise.all(["", "/plan", "/privacy"].map((part) => request(path + part, { signal })));
  const isDecoded = DECODED.includes(plan.plan.statistic.kind);
  const isSummed = plan.plan.release.kind === "sum.v1";
  const sections = SECTIONS.filter((each) => (isDecoded || !each.decoded) && (isSummed || !each.summed) && (scope === "operator" || !each.operator));
  const shown = sections.find((each) => each.name === name);
  const context = { study, plan, privacy, rest, query, scope, isBound, signal };
  const nodes = shown
    ? shown.show(context)
    : [h("section", { class: "card" }, h("p", { class: "empty" }, `There is no section “${name}” here for this key and this kind of study.`))];
  const campaign = plan.plan.campaign && !isBound && (await campaignPanel(study, scope, signal));
  return [...showSummary(study), campaign, tabs(id, sections, name), ...nodes].filter(Boolean);
}
