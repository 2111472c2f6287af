// A job of the server: start it, follow it, cancel it, show its end.

import { Problem, follow, request } from "./api.js";
import { announce, h, problemBox } from "./dom.js";
import { share } from "./words.js";

const NO_WORKER = "no worker is there, so it waits. Start one with “sfumato worker”; the job then runs by itself.";

/** Controls of a job; `showEnd(job)` returns the nodes for a job that has ended. */
export function makeJob({ what, showEnd, start, signal }) {
  const cancel = h("button", { type: "button", hidden: true }, "Cancel");
  const bar = h("progress", { max: "1", value: "0", "aria-label": `Progress of the ${what}` });
  const words = h("span");
  const progress = h("div", { class: "progress", hidden: true }, bar, words);
  const place = h("div", { class: "result" });
  let running = null;

  function report({ state, progress: done, n_workers: workers }) {
    bar.value = done;
    words.textContent = state === "running" ? share(done, 0) : workers === 0 ? `${state}: ${NO_WORKER}` : state;
    progress.classList.toggle("waits", workers === 0 && state !== "running");
  }

  function setBusy(busy) {
    start.disabled = busy;
    cancel.hidden = progress.hidden = !busy;
    if (busy) place.replaceChildren();
  }

  /** Run a job; `begin` returns its path. */
  async function run(begin) {
    setBusy(true);
    report({ state: "queued", progress: 0 });
    try {
      running = await begin();
      const ended = await follow(running, report, signal);
      place.replaceChildren(await show(ended));
      announce(`The ${what} has ${ended.state}.`);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
    } finally {
      running = null;
      if (!signal.aborted) setBusy(false);
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
  return { cancel, progress, place, run };
}
