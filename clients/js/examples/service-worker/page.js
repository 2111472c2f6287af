// The page enrols and adds readings. Everything else is the worker's.
import { Device } from "./sfumato-device.js";

const log = (text) => (document.getElementById("log").textContent += `${text}\n`);
const device = new Device();
const code = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, "", location.pathname);

const { isEnrolled } = await device.status();
if (!isEnrolled) {
  const { problems } = await device.enrol(code);
  problems.forEach(log);
}
const worker = await navigator.serviceWorker.register("worker.js", { type: "module" });
await navigator.serviceWorker.ready;
navigator.serviceWorker.addEventListener("message", ({ data }) => log(JSON.stringify(data)));

setInterval(() => device.add({ x: Math.random(), y: Math.random() }), 1000);

/** Ask for a flush: soon, and by the browser's own schedule where it has one. */
export async function askForFlush() {
  await device.save();
  worker.active.postMessage("flush");
  // These come also when the page is closed, and when the network is back.
  await worker.sync?.register("flush").catch(() => undefined);
  await worker.periodicSync?.register("flush", { minInterval: 3_600_000 }).catch(() => undefined);
}
addEventListener("visibilitychange", askForFlush);
window.askForFlush = askForFlush;
window.device = device;
log("ready");
