// One study: totals, decodes, plan, devices and refusals.

import { answersPanel } from "./answers/card.js";
import { Problem, request } from "./api.js";
import { decodePanel } from "./decode.js";
import { h, problemBox, table } from "./dom.js";
import { showPlan } from "./plan.js";
import { paged, pill, when } from "./studies.js";
import { count, short, stateOf, whole } from "./words.js";

function tile(name, value) {
  return h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value));
}

function showSummary(study) {
  return [
    h("p", { class: "back" }, h("a", { href: "#studies" }, "← All studies")),
    h("h1", { tabindex: "-1" }, study.name),
    h("p", { class: "under" }, pill(study.state, stateOf(study)), h("code", { class: "identity" }, study.study_id)),
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

function labelsOf(device) {
  return Object.entries(device.labels).map(([name, value]) => `${name} ${value}`).join(", ") || "–";
}

function renderDevices(devices) {
  if (!devices.length) return h("p", { class: "empty" }, "No device has enrolled.");
  const heads = ["Device", "Labels", "State", "Last seen", "Sketches", "Waiting", "Agent"];
  const rows = devices.map((device) => [
    h("code", { title: device.device_id }, short(device.device_id)),
    labelsOf(device),
    pill(device.state),
    when(device.last_seen),
    whole(device.n_sketches),
    device.heartbeat ? whole(device.heartbeat.waiting_sketches) : "–",
    device.heartbeat ? device.heartbeat.agent : "–",
  ]);
  return table("Devices", heads, rows, { numeric: [4, 5] });
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

const DECODED = ["fourier", "grid"];

/** A card whose content is loading; a problem replaces content that cannot be loaded. */
function section(title, content, signal) {
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

/** Show a study; `result` is a decode or a snapshot of it, to show at once. */
export async function showStudy(study, result, signal) {
  const path = `/v1/studies/${study}`;
  const [summary, plan, privacy] = await Promise.all(
    ["", "/plan", "/privacy"].map((part) => request(path + part, { signal })),
  );
  return [
    ...showSummary(summary),
    DECODED.includes(plan.plan.statistic.kind)
      ? decodePanel(summary, plan.plan, result, signal)
      : answersPanel(summary, plan.plan, result, signal),
    section("Devices", paged(`${path}/devices`, renderDevices, signal), signal),
    section("Refusals", request(`${path}/refusals`, { signal }).then(renderRefusals), signal),
    showPlan(plan, privacy),
  ];
}
