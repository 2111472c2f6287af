// A job of the server: start it, follow it, cancel it, show its end.

import { Problem, follow, request } from "./api.js";
import { announce, h, problemBox } from "./dom.js";
import { share } from "./words.js";

const NO_WORKER = "no worker is there, so it waits. Start one with “sfumato worker”; the job then runs by itself.";

/** The latest entry of a paged list, newest first, that fits; null without one. */
async function findLatest(path, fits, signal) {
  let page = null;
  do {
    const query = new URLSearchParams({ limit: 20, ...(page === null ? {} : { page }) });
    const found = await request(`${path}?${query}`, { signal });
    const latest = found.items.find((each) => each.state === "succeeded" && fits(each));
    if (latest) return latest;
    page = found.next_page;
  } while (page !== null);
  return null;
}

/** Controls of a job; `showEnd(job)` returns the nodes for a job that has ended. */
function makeJob({ what, showEnd, start, signal }) {
  const cancel = h("button", { type: "button", class: "small" }, "Cancel");
  const bar = h("progress", { max: "1", value: "0", "aria-label": `Progress of the ${what}` });
  const words = h("span");
  const progress = h("div", { class: "progress", hidden: true }, bar, words, cancel);
  const place = h("div", { class: "result" });
  let running = null;
  let turn = 0;

  function report({ state, progress: done, n_workers: workers }) {
    bar.value = done;
    words.textContent = state === "running" ? share(done, 0) : workers === 0 ? `${state}: ${NO_WORKER}` : state;
    progress.classList.toggle("waits", workers === 0 && state !== "running");
  }

  /** Run a job, and return whether it succeeded; `begin` returns its path. A later run takes over from a stored answer. */
  async function run(begin, { isStored = false } = {}) {
    const mine = (turn += 1);
    const isLate = () => signal.aborted || mine !== turn;
    start.disabled = !isStored;
    progress.hidden = false;
    place.replaceChildren();
    report({ state: "queued", progress: 0 });
    try {
      running = await begin();
      const ended = await follow(running, report, signal);
      const shown = await show(ended);
      if (isLate()) return false;
      place.replaceChildren(shown);
      announce(`The ${what} has ${ended.state}.`);
      return ended.state === "succeeded";
    } catch (error) {
      if (isLate()) return false;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
      return false;
    } finally {
      if (!isLate()) {
        running = null;
        start.disabled = false;
        progress.hidden = true;
      }
    }
  }

  async function show(job) {
    if (job.state === "succeeded") return showEnd(job);
    if (job.problem) return problemBox(new Problem(job.problem, job.problem.status));
    return h("p", { class: "empty" }, `The ${what} was ${job.state}.`);
  }

  cancel.addEventListener("click", async () => {
    if (running) await request(running, { method: "DELETE", signal }).catch(() => {});
  });
  return { progress, place, run };
}

/**
 * A card that opens with an answer: the one that the address names, or the latest.
 *
 * The form is folded behind the answer, and open where there is none. `stored` is the path of the answer in
 * the address, `latest` where and how to find one, that of a schedule first, `pin(job)` keeps a job in the address and returns its path,
 * and `create()` requests one.
 */
export function jobCard({ title, what = title.toLowerCase(), verb, again, none, asking, showEnd, stored, latest, pin, create, runNow = false, onended = () => {}, signal }) {
  const start = h("button", { type: "submit", class: "main" }, verb);
  const job = makeJob({ what, showEnd, start, signal });
  let isAsked = false;
  async function ask() {
    isAsked = true;
    job.progress.scrollIntoView({ block: "nearest" });
    fold.open = !(await job.run(async () => pin(await create())));
    onended();
  }
  function submit(event) {
    event.preventDefault();
    if (!start.disabled) ask();
  }
  const fold = h("details", { class: "asking" }, h("summary", {}, again), asking(h("div", { class: "buttons" }, start), submit));
  async function open() {
    if (runNow) return ask();
    const [ofSchedule, last] = stored ? [] : await Promise.all([latest.ofSchedule?.(), findLatest(latest.path, latest.fits, signal)]);
    const found = stored ?? ofSchedule ?? last;
    // Somebody may have pressed the button meanwhile.
    if (isAsked) return undefined;
    if (found) return job.run(async () => stored ?? pin(found), { isStored: true });
    fold.open = true;
    return job.place.replaceChildren(h("p", { class: "empty" }, none));
  }
  open().catch((error) => {
    if (signal.aborted) return;
    if (!(error instanceof Problem)) throw error;
    job.place.replaceChildren(problemBox(error));
  });
  return h("section", { class: "card" }, h("h2", {}, title), job.progress, job.place, fold);
}
