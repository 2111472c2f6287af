// The list of studies.

import { h, named, table } from "../base/dom.js";
import { listing } from "../base/listing.js";
import { ago, stateOf, utc, whole } from "../base/words.js";
import { createPanel } from "./create.js";
import { planPanel } from "./plan.js";

/** The age of a time, with the time itself as a tooltip. */
export function when(text, never = "never") {
  if (text === null) return never;
  return h("time", { datetime: text, title: utc(new Date(text)) }, ago(text));
}

export function pill(state, words = state) {
  return h("span", { class: `pill ${state}` }, words);
}

/** Studies in their order, but phases of a campaign behind each other. */
function layOut(studies) {
  const known = new Map(studies.map((study) => [study.study_id, study]));
  const later = new Set(studies.map((study) => study.next_study).filter((next) => known.has(next)));
  const rows = [];
  for (const first of studies.filter((study) => !later.has(study.study_id))) {
    for (let study = first; study; study = known.get(study.next_study)) rows.push([study, study !== first]);
  }
  return rows;
}

function render(studies) {
  if (!studies.length) {
    return h(
      "p",
      { class: "empty" },
      "There is no study yet. An operator creates one here, or with ",
      h("code", {}, "sfumato study create NAME plan.toml"),
      ".",
    );
  }
  const heads = ["Study", "State", "Devices", "Sketches", "Records", "Last sketch"];
  const rows = layOut(studies).map(([study, isLater]) => [
    [isLater && h("span", { class: "note" }, "then "), h("a", { href: `#studies/${study.study_id}` }, named(study.name))],
    pill(study.state, stateOf(study)),
    whole(study.n_devices),
    whole(study.n_sketches),
    whole(study.n_records),
    when(study.last_arrival),
  ]);
  return table("Studies", heads, rows, { numeric: [2, 3, 4], stacks: true });
}

export async function showStudies(scope, signal) {
  const textOf = (study) => `${study.name} ${study.study_id}`;
  const create = scope === "operator" ? createPanel(signal) : null;
  return [
    h("h1", { tabindex: "-1" }, "Studies"),
    h("section", { class: "card" }, await listing("/v1/studies", { render, textOf, noun: "study", nouns: "studies", signal })),
    planPanel(signal, create?.fill),
    create?.node,
  ].filter(Boolean);
}
