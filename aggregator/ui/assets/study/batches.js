// The batches of a study with a secure sum, and for operators what is decided about one.

import { Problem, request } from "../base/api.js";
import { announce, h, identity, named, problemBox, table } from "../base/dom.js";
import { listing } from "../base/listing.js";
import { count, whole } from "../base/words.js";
import { pill, when } from "../studies/list.js";
import { field } from "./selection.js";

const FLAGS = {
  implausible: "no honest fleet adds up to this total",
  inconsistent: "it differs from the other parts",
};

function stateOf(batch) {
  const { state, standing } = batch;
  if (state !== "acknowledged") return { open: "takes reports", closing: "waits for the helper", opened: "waits for the helper", void: "void" }[state];
  return { counted: "in the sums", flagged: "needs a decision", "set-aside": "set aside" }[standing];
}

function noteOf(batch) {
  if (batch.state === "void" && batch.reason) return named(batch.reason);
  if (batch.problem) return `${batch.problem.title}. ${batch.problem.fix ?? ""}`;
  if (batch.flags.length) return batch.flags.map((flag) => FLAGS[flag] ?? flag).join("; ");
  if (batch.state === "open" && batch.n_reports < batch.least_reports) return `needs ${count(batch.least_reports, "report")}`;
  if (batch.state === "open" && batch.is_asked) return "closes now: an operator asked for it";
  if (batch.state === "open") return ["closes ", when(batch.closes)];
  return batch.reason ? named(batch.reason) : "";
}

function render(batches, act) {
  if (!batches.length) return h("p", { class: "empty" }, "No report has come yet. The reports of a slot form a batch, of which only the total is ever seen.");
  const heads = ["Batch", "State", "Reports", "Records", "Note"];
  const rows = batches.map((batch) => [
    [
      h("strong", {}, `Slot ${whole(batch.slot)}`),
      batch.part || batch.number ? ` part ${whole(batch.part)}, number ${whole(batch.number)}` : "",
      Object.entries(batch.labels).map(([name, value]) => [" ", h("span", { class: "tag" }, named(name), " ", named(value))]),
      identity(batch.batch_id),
    ],
    pill(batch.state === "acknowledged" && batch.standing !== "counted" ? "late" : batch.state, stateOf(batch)),
    whole(batch.n_reports),
    batch.n_records === null ? "–" : whole(batch.n_records),
    noteOf(batch),
    ...(act ? [act(batch)] : []),
  ]);
  return table("Batches", act ? [...heads, "Action"] : heads, rows, { numeric: [2, 3], stacks: true });
}

const ACTIONS = {
  open: {
    verb: "Open now",
    fits: (batch) => batch.state === "open" && batch.n_reports >= batch.least_reports,
    effect: "It takes no more reports, and its total is opened with the helper. Later reports of the slot form another batch, with a noise of its own.",
    done: "It is closed; a worker opens its total.",
  },
  admit: {
    verb: "Admit",
    fits: (batch) => ["flagged", "set-aside"].includes(batch.standing),
    effect: "Its total is added to every sum.",
    done: "Its total is in the sums.",
    hasReason: true,
  },
  "set-aside": {
    verb: "Set aside",
    fits: (batch) => ["counted", "flagged"].includes(batch.standing),
    effect: "Its total leaves every sum. Snapshots with it say so.",
    done: "Its total is in no sum.",
    hasReason: true,
  },
  "give-up": {
    verb: "Give up",
    fits: (batch) => batch.problem && ["open", "closing", "opened"].includes(batch.state),
    effect: "Its reports are dropped unread, for good. Do this if its helper is gone; one that is away for some time answers later.",
    done: "Its reports are dropped.",
    hasReason: true,
  },
};

/** Ask before an action; the reason is part of the record. */
function makeDialog(study, signal, reload) {
  const dialog = h("dialog", { "aria-labelledby": "batch-dialog-title" });
  function open(batch, action) {
    const { verb, effect, done, hasReason } = ACTIONS[action];
    const reason = h("input", { type: "text", required: true, maxlength: "200", autocomplete: "off", dir: "auto" });
    const confirm = h("button", { type: "submit", class: "main" }, verb);
    const place = h("div");
    async function submit(event) {
      event.preventDefault();
      confirm.disabled = true;
      try {
        const body = hasReason ? { body: { reason: reason.value.trim() } } : {};
        await request(`/v1/studies/${study.study_id}/batches/${batch.batch_id}/${action}`, { method: "POST", ...body, signal });
        dialog.close();
        await reload(done);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        confirm.disabled = false;
        place.replaceChildren(problemBox(error));
      }
    }
    dialog.replaceChildren(
      h("h2", { id: "batch-dialog-title" }, `${verb}: slot ${whole(batch.slot)}`),
      identity(batch.batch_id),
      h("p", {}, effect),
      h("form", { onsubmit: submit }, hasReason && field("Reason, for the audit log", reason), h("div", { class: "buttons" }, confirm, h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))),
      place,
    );
    dialog.showModal();
  }
  return { dialog, open };
}

/** The devices that were in a flagged part each time, once there is one. */
function renderSuspects(found) {
  if (!found.n_windows) return "";
  const heads = ["Device", "Flagged parts"];
  const rows = found.suspects.map((each) => [[each.name && h("strong", {}, named(each.name)), identity(each.device_id)], whole(each.n_windows)]);
  const chance = found.n_innocent < 0.1 ? "less than one in ten" : String(Math.round(found.n_innocent * 10) / 10);
  return [
    h("h3", {}, "Suspects"),
    h(
      "p",
      {},
      `${count(found.n_suspects, "device")} sent into a flagged part in every one of ${count(found.n_windows, "window")} with one; chance alone leaves ${chance} in the mean. `,
      found.n_innocent > 0.1 * found.n_suspects ? "Wait for more windows before you act on this." : "An operator can exclude a device under Devices.",
    ),
    found.suspects.length ? table("Suspects", heads, rows, { numeric: [1] }) : "",
  ];
}

/** The card of the batches. */
export function batchesPanel({ study, scope, signal }) {
  const place = h("div", {}, h("p", { class: "empty" }, "…"));
  const suspects = h("div");
  const news = h("p", { class: "verdict good", role: "status", hidden: true });
  const textOf = (batch) => [`slot ${batch.slot}`, batch.batch_id, stateOf(batch), ...Object.entries(batch.labels).flat()].join(" ");
  async function load(words = null) {
    news.textContent = words ?? "";
    news.hidden = words === null;
    if (words) announce(words);
    try {
      place.replaceChildren(await listing(`/v1/studies/${study.study_id}/batches`, { render: (batches) => render(batches, act), textOf, noun: "batch", nouns: "batches", signal }));
      if (scope !== "viewer") suspects.replaceChildren(...[renderSuspects(await request(`/v1/studies/${study.study_id}/batches/suspects`, { signal }))].flat());
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
    }
  }
  const { dialog, open } = makeDialog(study, signal, load);
  const act =
    scope === "operator"
      ? (batch) =>
          h(
            "div",
            { class: "buttons" },
            Object.entries(ACTIONS)
              .filter(([, { fits }]) => fits(batch))
              .map(([action, { verb }]) => h("button", { type: "button", class: "small", "aria-label": `${verb}: slot ${whole(batch.slot)}`, onclick: () => open(batch, action) }, `${verb}…`)),
          )
      : null;
  load();
  return [h("section", { class: "card" }, h("h2", {}, "Batches"), news, place, suspects, dialog)];
}
