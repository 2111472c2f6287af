// What React Native adds to Hermes, or Hermes has had since version 0.12, as far as it is used.
globalThis.performance ??= { now: () => Date.now() };
globalThis.queueMicrotask ??= (run) => void Promise.resolve().then(run);
if (![].at) {
  const at = function (i) {
    return this[i < 0 ? this.length + i : i];
  };
  Object.defineProperty(Array.prototype, "at", { value: at, configurable: true });
}
Object.hasOwn ??= (object, key) => Object.prototype.hasOwnProperty.call(object, key);
