/** What the docs' component takes from React Native and its native modules, over the test that feeds Hermes. */
import { createElement } from "react";

// What follows is what React Native gives to every program.
const globals = globalThis;

/** Tell the test of something. */
export const tell = (message) => print(`@@${JSON.stringify(message)}`);

/** Timers that have not fired: short ones fire when nothing else is to do, long ones never. */
export const timers = new Map();
let nTimers = 0;
const addTimer = (run, ms = 0) => {
  timers.set(++nTimers, run);
  const id = nTimers;
  if (ms < 100) void Promise.resolve().then(() => timers.delete(id) && run());
  return id;
};
const endTimer = (id) => timers.delete(id);
Object.assign(globals, { setTimeout: addTimer, clearTimeout: endTimer, setInterval: addTimer, clearInterval: endTimer });

globals.console ??= { log: print, warn: print, error: print };

// The bytes of the system's generator are fed by the test, each once.
let at = 0;
globals.crypto = {
  getRandomValues: (into) => {
    const { entropy } = globals;
    if (at + 2 * into.length > entropy.length) throw new Error("no entropy is left");
    into.forEach((_, i) => (into[i] = parseInt(entropy.slice(at + 2 * i, at + 2 * i + 2), 16)));
    at += 2 * into.length;
    return into;
  },
};

globals.AbortController ??= class {
  signal = { addEventListener() {} };
  abort() {}
};

const requests = new Map();

/** An XMLHttpRequest that the test makes. */
class Request {
  responseType = "";
  responseURL = "";
  headers = {};
  sent = {};

  open(method, url) {
    this.method = method;
    this.responseURL = url;
  }

  setRequestHeader(name, value) {
    this.sent[name] = value;
  }

  getResponseHeader(name) {
    return this.headers[name.toLowerCase()] ?? null;
  }

  abort() {}

  send(body = new Uint8Array(0)) {
    const number = requests.size;
    requests.set(number, this);
    const hex = Array.from(body, (byte) => byte.toString(16).padStart(2, "0")).join("");
    tell({ event: "request", number, method: this.method, url: this.responseURL, headers: this.sent, body: hex });
  }
}

globals.XMLHttpRequest = Request;
globals.answer = (number, status, headers, hex) => {
  const bytes = Uint8Array.from({ length: hex.length / 2 }, (_, i) => parseInt(hex.slice(2 * i, 2 * i + 2), 16));
  const request = requests.get(number);
  Object.assign(request, { status, headers, response: bytes.buffer });
  request.onload();
};

// AsyncStorage, in memory.
const items = new Map();
export default {
  getItem: async (key) => items.get(key) ?? null,
  setItem: async (key, value) => void items.set(key, value),
  removeItem: async (key) => void items.delete(key),
  getAllKeys: async () => [...items.keys()],
};

const listeners = new Set();
export const AppState = {
  addEventListener: (_, listener) => {
    listeners.add(listener);
    return { remove: () => listeners.delete(listener) };
  },
};
/** Move the application to the front, or out of it. */
export const move = (state) => listeners.forEach((listener) => listener(state));

export const View = ({ children }) => createElement("View", null, children);
export const Button = (props) => createElement("Button", props);
/** A text tells the test what it shows. */
export const Text = ({ children }) => {
  tell({ event: "shown", text: `${children}` });
  return createElement("Text", null, children);
};
