// Answers that the server computes again and again: which there are, and one more.

import { Problem, request } from "./api.js";
import { attempt } from "./attempt.js";
import { h } from "./dom.js";
import { duration, utc } from "./words.js";

const PERIODS = [["", "no"], ["3600", "every hour"], ["86400", "every day"], ["604800", "every week"]];

/**
 * The schedules of a study for a kind of answer.
 *
 * `every` is a control for the form, `place` lists the schedules, `findLatest()` returns the last answer of one,
 * and `begin(wanted, create)` requests an answer, and then a schedule if the control says so.
 */
export function makeSchedules(study, kind, signal) {
  const path = `/v1/studies/${study.study_id}/schedules`;
  const every = h("select", {}, PERIODS.map(([value, text]) => h("option", { value }, text)));
  const place = h("div", { class: "repeats" });
  const read = async () => (await request(`${path}?limit=100`, { signal })).items.filter((each) => each.kind === kind);

  function show(schedules) {
    const lines = schedules.map((each) => {
      const stop = () => attempt(place, signal, async () => {
        await request(`/v1/schedules/${each.schedule_id}`, { method: "DELETE", signal });
        show(await read());
      });
      const when = each.state === "active" ? `next ${utc(new Date(each.next_at))}` : each.state;
      const where = Object.entries(each.labels).map(([name, value]) => `, ${name} ${value}`).join("");
      const failed = each.problem ? `; the last one failed: ${each.problem.title}` : "";
      return h("li", {}, `Repeated every ${duration(each.every_s)}, k ${each.n_clusters}${where}: ${when}${failed} `, h("button", { type: "button", class: "small", onclick: stop }, "Stop"));
    });
    place.replaceChildren(h("ul", { class: "plain" }, lines));
  }

  // A page without this list has its answers all the same.
  const known = read().then((schedules) => (show(schedules), schedules), () => []);

  async function findLatest() {
    const { last_job_id: id } = (await known).find((each) => each.state === "active" && each.last_job_id && !each.problem) ?? {};
    return id && { decode_id: id, analysis_id: id };
  }

  async function begin({ first_slot: first, last_slot: last, ...wanted }, create) {
    if (every.value && ((first ?? null) !== null || (last ?? null) !== null)) {
      throw new Problem({ title: "The answer cannot be repeated", field: "from, to", rule: "must be empty for an answer that is repeated", fix: "leave the times empty: each start reads all windows up to then" });
    }
    const made = await create();
    if (every.value) {
      await request(path, { method: "POST", body: { ...wanted, kind, every_s: Number(every.value) }, signal });
      every.value = "";
      show(await read());
    }
    return made;
  }
  return { every, place, findLatest, begin };
}
