// The devices of a study: names, streams, health, and for operators exclusion and revocation.

import { Problem, request } from "../base/api.js";
import { announce, h, identity, named, problemBox, table } from "../base/dom.js";
import { listing } from "../base/listing.js";
import { count, day, whole } from "../base/words.js";
import { pill, when } from "../studies/list.js";
import { field } from "./selection.js";

// One window behind is a sketch on its way.
const LATE = 2;

/** How many of some devices have a stream that is behind the newest of them all. */
export function countSilent(devices) {
  const newest = newestOf(devices);
  return devices.filter(({ state, streams }) => state === "enrolled" && streams.some(({ last_slot: slot }) => slot !== null && newest - slot >= LATE)).length;
}

function labelsOf(device) {
  return Object.entries(device.labels);
}

const titleOf = ({ name, ordinal }) => name ?? `device ${whole(ordinal)}`;

/** Name or number of a device, its labels, and its identity, which alone is its own. */
function showName(device) {
  const labels = labelsOf(device);
  return [
    h("strong", {}, named(device.name ?? `Device ${whole(device.ordinal)}`)),
    labels.map(([name, value]) => [" ", h("span", { class: "tag" }, named(name), " ", named(value))]),
    identity(device.device_id),
  ];
}

/** The latest slot that any of the devices has sent. */
function newestOf(devices) {
  return Math.max(...devices.flatMap(({ streams }) => streams.map(({ last_slot: slot }) => slot ?? -Infinity)), -Infinity);
}

function endOf(slot, window) {
  return day(1000 * (window.origin + (slot + 1) * window.length_s));
}

function showStream(stream, newest, window) {
  const { last_slot: slot, n_missing: missing } = stream;
  const behind = slot === null ? 0 : newest - slot;
  return h(
    "li",
    {},
    named(stream.stream),
    h("small", {}, slot === null || window.kind !== "time" ? ` ${count(stream.last_sequence + 1, "sketch", "sketches")} made` : ` to ${endOf(slot, window)}`),
    behind >= LATE && [" ", pill("late", `${count(behind, "window")} behind`)],
    missing > 0 && [" ", pill("late", `${whole(missing)} missing`)],
  );
}

/** The name of one of the devices, before its identity. */
const nameIn = (devices, id) => named(devices.find(({ device_id: each }) => each === id)?.name ?? "");

function render(plan) {
  return (devices, all, act) => {
    if (!devices.length) return h("p", { class: "empty" }, "No device has enrolled. An operator creates a token under “Manage”.");
    const newest = newestOf(all);
    const heads = ["Device", "State", "Last seen", "Streams", "Sketches", "Waiting", "Agent"];
    const rows = devices.map((device) => [
      showName(device),
      [pill(device.state), device.may_repeat.length > 0 && [" ", pill("late", "may repeat records"), h("small", {}, " of ", device.may_repeat.map((id) => [nameIn(all, id), identity(id)]))]],
      when(device.last_seen),
      device.streams.length ? h("ul", { class: "streams" }, device.streams.map((stream) => showStream(stream, newest, plan.window))) : "none yet",
      whole(device.n_sketches),
      device.heartbeat ? whole(device.heartbeat.waiting_sketches) : "–",
      device.heartbeat ? named(device.heartbeat.agent) : "–",
      ...(act ? [act(device)] : []),
    ]);
    return table("Devices", act ? [...heads, "Action"] : heads, rows, { numeric: [4, 5], stacks: true });
  };
}

const ACTIONS = {
  exclude: {
    verb: "Exclude",
    effect: "Its sketches leave every sum, and later ones are refused. This cannot be undone.",
    done: ({ n_subtracted: out, n_kept: kept }) => `Excluded: ${count(out, "sketch", "sketches")} taken out${kept ? `; ${whole(kept)} stay, because their payloads are no longer kept` : ""}.`,
  },
  revoke: {
    verb: "Revoke",
    effect: "Nothing that it signs is taken any more. The sketches that it has sent stay. This cannot be undone.",
    done: () => "Revoked. Its stored sketches stay in every sum.",
  },
};

/** Ask before an action; the reason is part of the record. */
function makeDialog(signal, reload) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  function open(device, action) {
    const { verb, effect, done } = ACTIONS[action];
    const reason = h("input", { type: "text", required: true, maxlength: "200", autocomplete: "off", dir: "auto" });
    const confirm = h("button", { type: "submit", class: "main danger" }, `${verb} ${titleOf(device)}`);
    const place = h("div");
    async function submit(event) {
      event.preventDefault();
      confirm.disabled = true;
      try {
        const answer = await request(`/v1/devices/${device.device_id}/${action}`, { method: "POST", body: { reason: reason.value.trim() }, signal });
        dialog.close();
        await reload(done(answer));
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        confirm.disabled = false;
        place.replaceChildren(problemBox(error));
      }
    }
    dialog.replaceChildren(
      h("h2", { id: "dialog-title" }, `${verb} a device`),
      h("p", {}, showName(device)),
      h("p", {}, effect),
      h("form", { onsubmit: submit }, field("Reason, for the audit log", reason), h("div", { class: "buttons" }, confirm, h("button", { type: "button", onclick: () => dialog.close() }, "Keep the device"))),
      place,
    );
    dialog.showModal();
    reason.focus();
  }
  return { dialog, open };
}

/** The card of the devices. */
export function devicesPanel({ study, plan: { plan }, scope, signal }) {
  const place = h("div", {}, h("p", { class: "empty" }, "…"));
  const news = h("p", { class: "verdict good", role: "status", hidden: true });
  const draw = render(plan);
  const textOf = (device) => [`device ${device.ordinal}`, device.name ?? "", device.device_id, device.state, ...labelsOf(device).flat(), ...device.streams.map(({ stream }) => stream)].join(" ");
  async function load(words = null) {
    news.textContent = words ?? "";
    news.hidden = words === null;
    if (words) announce(words);
    try {
      const shown = await listing(`/v1/studies/${study.study_id}/devices`, { render: (devices, all) => draw(devices, all, act), textOf, noun: "device", signal });
      place.replaceChildren(shown);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Problem)) throw error;
      place.replaceChildren(problemBox(error));
    }
  }
  const { dialog, open } = makeDialog(signal, load);
  const act =
    scope === "operator"
      ? (device) =>
          h(
            "div",
            { class: "buttons" },
            Object.entries(ACTIONS)
              .filter(([action]) => (action === "exclude" ? device.state !== "excluded" : device.state === "enrolled"))
              .map(([action, { verb }]) => h("button", { type: "button", class: "small", "aria-label": `${verb} ${titleOf(device)}`, onclick: () => open(device, action) }, `${verb}…`)),
          )
      : null;
  load();
  return h("section", { class: "card" }, h("h2", {}, "Devices"), news, place, dialog);
}
