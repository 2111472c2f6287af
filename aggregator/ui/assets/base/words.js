// Numbers, times and settings as text.

const WHOLE = new Intl.NumberFormat("en");
const ROUNDED = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

export const MECHANISMS = {
  "discrete-knorm": "K-norm noise",
  "discrete-laplace": "Laplace noise",
  "discrete-gaussian": "Gaussian noise",
  "phase-report": "a noisy phase of one record",
};

export const NEIGHBOURS = {
  "replace-one": "hides the values of a record; the number of records is public",
  "add-remove-one": "hides that a record exists; the number of records is released with noise",
};

export const UNITS_PROTECTED = {
  record: "each record",
  device: "all records of a device in a window together",
};

export function count(number, one, many = `${one}s`) {
  return `${WHOLE.format(number)} ${number === 1 ? one : many}`;
}

export function whole(number) {
  return number === null ? "secret" : WHOLE.format(number);
}

export function rounded(number) {
  return ROUNDED.format(number);
}

export function share(number, decimals = 1) {
  return `${fixed(100 * number, decimals)}%`;
}

export function fixed(number, decimals) {
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return new Intl.NumberFormat("en", options).format(number);
}

/** A value with its 95 % interval, to the digits that the interval allows. */
export function between(value, low, high) {
  const width = high - low;
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const digits = width > 0 ? Math.min(17, Math.max(3, Math.ceil(Math.log10(largest / width) + 0.5) + 1)) : 4;
  const format = new Intl.NumberFormat("en", { maximumSignificantDigits: digits });
  const [middle, from, to] = [value, low, high].map((number) => format.format(number));
  return from === to ? middle : `${middle} (${from} to ${to})`;
}

/** A share with the deviation of its noise, as a 95 % interval; only a bound where noise may have made it. */
export function noisyShare(number, error) {
  const decimals = Math.min(6, Math.max(0, Math.ceil(-Math.log10(100 * error))));
  const high = Math.min(1, Math.max(0, number) + 2 * error);
  if (number < 2 * error) return `at most ${share(high, decimals)}`;
  return `${share(number, decimals)} (${share(number - 2 * error, decimals)} to ${share(high, decimals)})`;
}

/** The label of a tick. */
export function tickText(number) {
  if (number && Math.abs(number) < 1e-3) return number.toExponential(0).replace("e-", "e−");
  return Math.abs(number) < 1e5 ? rounded(number) : COMPACT.format(number);
}

/** Shorten a name; similar names often differ in their last letters. */
export function cut(text, length) {
  return text.length > length ? `${text.slice(0, Math.max(1, length - 3))}…${text.slice(-2)}` : text;
}

/** Decimals that give the largest value four digits. */
export function decimalsOf(values) {
  const largest = Math.max(...values.map(Math.abs));
  return largest ? Math.min(20, Math.max(0, 3 - Math.floor(Math.log10(largest)))) : 0;
}

/** An exact number of the plan, such as 1/10, with its decimal value. */
export function exact(text) {
  const [above, below] = text.split("/").map(Number);
  return below ? `${text} (${ROUNDED.format(above / below)})` : text;
}

/** Seconds as days, hours, minutes and seconds. */
export function duration(seconds) {
  const parts = [];
  let left = seconds;
  for (const [name, size] of UNITS) {
    const number = Math.floor(left / size);
    left -= number * size;
    if (number) parts.push(count(number, name));
  }
  return parts.join(" ") || "0 seconds";
}

/** A search box as text, such as "pressure 1 to 8.5 bar"; empty without one. */
export function searchedWithin(box, dimensions) {
  return dimensions
    .filter(({ name }) => Object.hasOwn(box, name))
    .map(({ name, unit }) => `${name} ${box[name].map(rounded).join(" to ")}${unit === "1" ? "" : ` ${unit}`}`)
    .join(", ");
}

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

/** A time as the reader writes times, in UTC. */
export function utc(time) {
  return `${MOMENT.format(time)} UTC`;
}

/** A day, with its time where that is not midnight. */
export function day(time) {
  const at = new Date(time);
  return at % 86_400_000 ? utc(at) : DATE.format(at);
}

/** The days from one time until before another, or the times where they are within a day; as the reader writes dates. */
export function days(begin, end) {
  const [from, until] = [new Date(begin), new Date(end)];
  const isWhole = [from, until].every((time) => time % 86_400_000 === 0);
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: isWhole ? undefined : "short", timeZone: "UTC" });
  return format.formatRange(from, isWhole ? until - 1 : until);
}

/** The age of a time, in its largest unit. */
export function ago(text, now = Date.now()) {
  const seconds = (new Date(text).getTime() - now) / 1000;
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return RELATIVE.format(Math.trunc(seconds / size), unit);
}

/** A probability of chance, never as a row of zeros. */
export function chance(p) {
  return p < 1e-4 ? "below 0.0001" : new Intl.NumberFormat("en", { maximumSignificantDigits: 2 }).format(p);
}

/** A change with its sign. */
export function signed(number, decimals = 2) {
  return `${number > 0 ? "+" : number < 0 ? "−" : ""}${fixed(Math.abs(number), decimals)}`;
}

export function unitOf(dimension) {
  return dimension.unit === "1" ? "" : dimension.unit;
}

export function withUnit(dimension) {
  return unitOf(dimension) ? `${dimension.name} (${dimension.unit})` : dimension.name;
}

/** A study's state, and the time until which a closed study accepts late sketches. */
export function stateOf(study) {
  if (study.accept_until === null) return study.state;
  return `${study.state}, accepts late sketches until ${utc(new Date(study.accept_until))}`;
}
