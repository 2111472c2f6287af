// A campaign: its phases in one line, what each waits for and has shown, and an operator's yes.

import { Problem, request } from "../base/api.js";
import { attempt } from "../base/attempt.js";
import { announce, h, named, problemBox } from "../base/dom.js";
import { count, days, share, whole } from "../base/words.js";
import { pill } from "../studies/list.js";

const MOST_SHARES = 5;
const PAUSE_MS = 1000;

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const linkTo = (decode, text) => h("a", { href: `#studies/${decode.study_id}/decodes/${decode.decode_id}` }, text);

/** The name of a phase; looks are numbered where there are several. */
function titleOf(phase, phases) {
  const alike = phases.filter(({ name }) => name === phase.name);
  return capital(phase.name) + (alike.length > 1 ? ` ${alike.indexOf(phase) + 1}` : "");
}

function describeAnswer({ verdict, weights }) {
  return capital([verdict?.word, count(weights.length, "cluster")].filter(Boolean).join(", "));
}

function describeLook({ looks }) {
  const shares = looks.looks.at(-1).clusters.map((cluster) => Math.max(0, cluster.share.value));
  if (shares.length <= MOST_SHARES) return `Measured shares: ${shares.map((each) => share(each)).join(", ")}`;
  return `Measured ${count(shares.length, "share")}: ${share(Math.min(...shares))} to ${share(Math.max(...shares))}`;
}

/** What a phase has shown so far, as a link to it. */
function showFound(phase, decode) {
  if (phase.name === "pilot") return phase.n_sketches > 0 && h("a", { href: `#studies/${phase.study_id}` }, "Distributions and calibration");
  if (!decode) return null;
  if (decode.state !== "succeeded") return linkTo(decode, `Its decode is ${decode.state}`);
  return linkTo(decode, phase.name === "look" ? describeLook(decode.result) : describeAnswer(decode.result));
}

function showState(phase) {
  if (phase.problem) return pill("failed", "halted");
  if (phase.waits !== null) return `Waits: ${phase.waits}`;
  return phase.study_id === null && "To come";
}

function showPhase(phase, { phases, devices, n_devices: expected }, decode, study) {
  const title = titleOf(phase, phases);
  const isHere = phase.study_id === study.study_id;
  // Of drawn devices nobody knows how many a phase has.
  const all = devices === "drawn" ? count(phase.n_finished, "device") : `${whole(phase.n_finished)} of ${count(Math.max(expected, phase.n_devices), "device")}`;
  return h(
    "li",
    { class: phase.study_id === null && "coming" },
    h("strong", {}, phase.study_id ? h("a", { href: `#studies/${phase.study_id}`, "aria-current": isHere && "page" }, title) : title),
    [days(phase.begins, phase.ends), phase.study_id && `${all} done`, showState(phase), showFound(phase, decode)].map((text) => text && h("p", {}, text)),
  );
}

function showAnswer({ phases, answer }, decodes) {
  const decode = decodes.get(answer);
  if (decode?.state !== "succeeded") return null;
  const isOver = phases.every((phase) => phase.study_id && phase.waits === null);
  return h("p", {}, h("strong", {}, isOver ? "Answer: " : "Answer so far: "), linkTo(decode, describeAnswer(decode.result)), ".");
}

/** The decodes that phases have shown, by identity; one that was deleted is left out. */
async function readDecodes({ phases }, signal) {
  const names = [...new Set(phases.map((phase) => phase.decode_id).filter(Boolean))];
  const found = await Promise.allSettled(names.map((name) => request(`/v1/decodes/${name}`, { signal })));
  return new Map(names.map((name, i) => [name, found[i].value]));
}

/** The controls with which an operator goes on without silent devices; nothing where there is nothing to go on with. */
function nextForm({ phases }, goOn) {
  const present = phases.findLast((phase) => phase.study_id);
  if (!present || present.waits === null || Date.parse(present.ends) > Date.now()) return null;
  const anyway = h("input", { type: "checkbox" });
  const start = h("button", { type: "submit" }, present === phases.at(-1) ? "Finish the campaign now" : "Publish the next phase now");
  const submit = (event) => {
    event.preventDefault();
    goOn(start, anyway.checked);
  };
  return h(
    "form",
    { onsubmit: submit },
    present.problem && h("label", { class: "check" }, anyway, h("span", {}, "Go on from an answer that nobody should use")),
    h("div", { class: "buttons" }, start),
    h("p", { class: "note" }, "Devices that are silent are not waited for."),
  );
}

/** Whether the server is about to go on by itself. */
const isComputing = ({ phases }) => phases.some(({ waits }) => waits === "its decode");

/** The card of the campaign that a study is a phase of. */
export async function campaignPanel(study, scope, signal) {
  const path = `/v1/studies/${study.study_id}/campaign`;
  const [body, place] = [h("div"), h("div")];
  const goOn = (start, anyway) =>
    attempt(place, signal, async () => {
      await draw(await request(`${path}/next`, { method: "POST", body: { anyway }, signal }));
      body.querySelector("h2").focus();
      announce("The campaign has gone on.");
    }, start);
  async function draw(found) {
    const decodes = await readDecodes(found, signal);
    const halted = found.phases.find((phase) => phase.problem);
    body.replaceChildren(
      h("h2", { tabindex: "-1" }, "Campaign ", named(found.name)),
      h("ol", { class: "phases" }, found.phases.map((phase) => showPhase(phase, found, decodes.get(phase.decode_id), study))),
      showAnswer(found, decodes) ?? "",
      (scope === "operator" && nextForm(found, goOn)) || "",
    );
    place.replaceChildren(halted ? problemBox(new Problem(halted.problem, halted.problem.status)) : "");
    if (isComputing(found)) setTimeout(look, PAUSE_MS);
  }
  const look = async () => signal.aborted || attempt(place, signal, async () => draw(await request(path, { signal })));
  await look();
  return h("section", { class: "card", "aria-label": "Campaign" }, body, place);
}
