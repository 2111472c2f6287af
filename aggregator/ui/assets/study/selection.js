// Selections of sketches by time and label: form, request and words.

import { Problem } from "../base/api.js";
import { h } from "../base/dom.js";
import { count, duration, rounded, utc, whole } from "../base/words.js";

/** Convert two times to the slots that lie wholly between them. */
export function slotsBetween(from, to, window) {
  const slotAt = (text) => (Date.parse(`${text}Z`) / 1000 - window.origin) / window.length_s;
  const first = from ? Math.ceil(slotAt(from)) : null;
  const last = to ? Math.floor(slotAt(to)) - 1 : null;
  if (first !== null && last !== null && first > last) {
    throw new Problem({
      title: "The times select nothing",
      field: "from, to",
      rule: "must have at least one whole window between them",
      fix: `windows last ${duration(window.length_s)} and are counted from ${utc(new Date(1000 * window.origin))}; move the times apart`,
    });
  }
  return { first_slot: first, last_slot: last };
}

export function field(label, control, hint = null) {
  return h("label", {}, h("span", {}, label), control, hint && h("small", {}, hint));
}

/** Controls of a selection: a menu for each label, and times where windows have them. */
export function makeSelectionControls(plan) {
  const controls = {
    labels: plan.labels.map((label) => [
      label.name,
      h(
        "select",
        {},
        h("option", { value: "" }, "any"),
        label.values.map((value) => h("option", { value: `=${value}` }, value)),
      ),
    ]),
  };
  if (plan.window.kind === "time") {
    controls.from = h("input", { type: "datetime-local" });
    controls.to = h("input", { type: "datetime-local" });
  }
  return controls;
}

/** The controls with their labels, for a grid of fields. */
export function layOutSelection(controls) {
  return [
    controls.from && field("From (UTC)", controls.from),
    controls.to && field("To (UTC)", controls.to),
    controls.labels.map(([name, select]) => field(name, select)),
  ];
}

export function readSelection(controls, plan) {
  const labels = controls.labels.filter(([, select]) => select.value);
  const slots = controls.from ? slotsBetween(controls.from.value, controls.to.value, plan.window) : {};
  return { ...slots, labels: Object.fromEntries(labels.map(([name, { value }]) => [name, value.slice(1)])) };
}

function describeSelection({ selection }, plan) {
  const { first_slot: first, last_slot: last, labels } = selection;
  const at = (slot) => utc(new Date(1000 * (plan.window.origin + slot * plan.window.length_s)));
  const parts = Object.entries(labels).map(([name, value]) => `${name} ${value}`);
  if (first !== null) parts.push(`from ${at(first)}`);
  if (last !== null) parts.push(`to ${at(last + 1)}`);
  return parts.length ? ` (${parts.join(", ")})` : "";
}

/** The sketches of a snapshot, in words. */
export function describeSource(snapshot, plan) {
  const about = snapshot.n_records_error ? `about ${whole(snapshot.n_records)} ± ${rounded(snapshot.n_records_error)} records` : count(snapshot.n_records, "record");
  return `From ${count(snapshot.n_sketches, "sketch", "sketches")} of ${count(snapshot.n_devices, "device")} with ${about}${describeSelection(snapshot, plan)}.`;
}

/** The warning about devices of a snapshot that were excluded after it was made; empty without. */
export function describeExcluded({ n_excluded_devices: excluded }, again) {
  if (!excluded) return [];
  const verb = excluded === 1 ? "was" : "were";
  return [`${count(excluded, "device")} in this result ${verb} excluded later: do not use it, ${again}`];
}
