// The worker releases windows that are over, and sends what waits. It and the page exclude each other.
import { Device } from "./sfumato-device.js";

const device = new Device();

async function flush() {
  const report = await device.flush().catch(({ message }) => ({ problems: [message] }));
  for (const client of await self.clients.matchAll({ includeUncontrolled: true })) client.postMessage(report);
}

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
for (const name of ["sync", "periodicsync", "message"]) self.addEventListener(name, (event) => event.waitUntil(flush()));
