// The list of studies.

import { request } from "./api.js";
import { h, table } from "./dom.js";
import { ago, stateOf, utc, whole } from "./words.js";

/** The age of a time, with the time itself as a tooltip. */
export function when(text, never = "never") {
  if (text === null) return never;
  return h("time", { datetime: text, title: utc(new Date(text)) }, ago(text));
}

export function pill(state, words = state) {
  return h("span", { class: `pill ${state}` }, words);
}

/** A list that loads one more page each time its button is pressed. */
export async function paged(path, render, signal) {
  const items = [];
  const place = h("div");
  const more = h("button", { type: "button", onclick: () => load().catch(() => {}) }, "Show more");
  let page = null;
  async function load() {
    const query = page === null ? "" : `?page=${encodeURIComponent(page)}`;
    const found = await request(path + query, { signal });
    items.push(...found.items);
    page = found.next_page;
    place.replaceChildren(render(items), page === null ? "" : more);
  }
  await load();
  return place;
}

function render(studies) {
  if (!studies.length) {
    return h(
      "p",
      { class: "empty" },
      "There is no study yet. An operator creates one with ",
      h("code", {}, "sfumato study create NAME plan.toml"),
      ".",
    );
  }
  const heads = ["Study", "State", "Devices", "Sketches", "Records", "Last sketch"];
  const rows = studies.map((study) => [
    h("a", { href: `#studies/${study.study_id}` }, study.name),
    pill(study.state, stateOf(study)),
    whole(study.n_devices),
    whole(study.n_sketches),
    whole(study.n_records),
    when(study.last_arrival),
  ]);
  return table("Studies", heads, rows, { numeric: [2, 3, 4] });
}

export async function showStudies(signal) {
  return [
    h("h1", { tabindex: "-1" }, "Studies"),
    h("section", { class: "card" }, await paged("/v1/studies", render, signal)),
  ];
}
