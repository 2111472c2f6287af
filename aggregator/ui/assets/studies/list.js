// The list of studies.

import { Problem, request } from "../base/api.js";
import { h, named, table } from "../base/dom.js";
import { listing } from "../base/listing.js";
import { ago, stateOf, utc, whole } from "../base/words.js";
import { countSilent } from "../study/devices.js";
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

const MOST_DEVICES = 1000;
const TONES = { sound: "good", rough: "late", doubtful: "bad", "do not use": "bad" };

/** What a study shows now: the verdict of its latest decode, alarms of its latest timeline, devices that fell behind. */
async function readNews({ study_id: id, n_devices: n }, signal) {
  const read = (part) => request(`/v1/studies/${id}/${part}`, { signal }).then(({ items }) => items);
  const [decodes, analyses, devices] = await Promise.all([read("decodes?limit=5"), read("analyses?limit=20"), n > MOST_DEVICES ? null : read(`devices?limit=${MOST_DEVICES}`)]);
  const decode = decodes.find(({ result }) => result);
  const entry = analyses.find(({ kind, state }) => kind === "timeline" && state === "succeeded");
  const timeline = entry && (await request(`/v1/analyses/${entry.analysis_id}`, { signal }));
  return { decode, timeline, silent: devices && countSilent(devices) };
}

const link = (to, shown) => h("a", { href: `#studies/${to}` }, shown);

/** The cells of the news: empty at first, filled when they have come. */
function newsCells(study, signal) {
  const cells = [0, 1, 2].map(() => h("span", { class: "note" }, "…"));
  const [answer, alarms, silent] = cells;
  const id = study.study_id;
  readNews(study, signal)
    .then((news) => {
      const word = news.decode && (news.decode.result.verdict?.word ?? "no verdict");
      answer.replaceChildren(word ? link(`${id}/decodes/${news.decode.decode_id}`, pill(TONES[word], word)) : "no decode");
      const last = news.timeline?.result.windows.findLast(({ p }) => p !== null);
      alarms.replaceChildren(!news.timeline ? "not looked" : last?.is_alarm ? link(`${id}/time`, pill("bad", "alarm")) : "none");
      silent.replaceChildren(news.silent === null ? "many devices" : news.silent ? link(`${id}/devices`, pill("late", whole(news.silent))) : "none");
    })
    .catch((error) => {
      if (!signal.aborted && !(error instanceof Problem)) throw error;
      for (const cell of cells) cell.textContent = "–";
    });
  return cells;
}

const render = (signal) => (studies) => {
  if (!studies.length) {
    return h(
      "p",
      { class: "empty" },
      "There is no study yet. An operator creates one here, or with ",
      h("code", {}, "sfumato study create NAME plan.toml"),
      ".",
    );
  }
  const heads = ["Study", "Latest answer", "Alarm now", "Devices behind", "Devices", "Records", "Last sketch"];
  const rows = layOut(studies).map(([study, isLater]) => [
    [isLater && h("span", { class: "note" }, "then "), h("a", { href: `#studies/${study.study_id}` }, named(study.name)), study.state === "open" ? "" : [" ", pill(study.state, stateOf(study))]],
    ...newsCells(study, signal),
    whole(study.n_devices),
    whole(study.n_records),
    when(study.last_arrival),
  ]);
  return table("Studies", heads, rows, { numeric: [4, 5], stacks: true });
};

export async function showStudies(scope, signal) {
  const textOf = (study) => `${study.name} ${study.study_id}`;
  const create = scope === "operator" ? createPanel(signal) : null;
  return [
    h("h1", { tabindex: "-1" }, "Studies"),
    h("section", { class: "card" }, await listing("/v1/studies", { render: render(signal), textOf, noun: "study", nouns: "studies", signal })),
    planPanel(signal, create?.fill),
    create?.node,
  ].filter(Boolean);
}
