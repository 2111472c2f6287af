// An answer as one HTML page that needs no server: words, pictures, tables, protection, and origin.

import { request } from "./api.js";
import { h } from "./dom.js";
import { utc } from "./words.js";

const SHEETS = ["/ui/dashboard.css", "/ui/charts.css"];
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/** What asks for something: a page that is sent to others has nothing to press. */
const CONTROLS = "button, form, input, select, textarea, dialog, progress, output, .downloads, .brush, .ask, .synthetic, .accepting .note, .how-to";
const MORE = `body { max-width: 62rem; padding-top: 1.5rem; }
svg { height: auto; max-width: 100%; }
pre { overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .75rem; }
@media print {
  :root { color-scheme: light; }
  body { font-size: 11pt; max-width: none; }
  .card { border: 0; padding: 0; }
  .scroll { overflow: visible; }
  section, figure, tr, li { break-inside: avoid; }
}`;

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** A copy of what is shown, without controls and without links into this page. */
function copyOf(node) {
  const copy = node.cloneNode(true);
  for (const each of copy.querySelectorAll(".swatch")) each.replaceWith(h("strong", {}, each.textContent));
  for (const each of copy.querySelectorAll(CONTROLS)) each.remove();
  for (const link of copy.querySelectorAll("a")) link.replaceWith(h("span", {}, ...link.childNodes));
  for (const each of copy.querySelectorAll("[tabindex]")) each.removeAttribute("tabindex");
  return copy;
}

async function readSheet(path, signal) {
  const answer = await fetch(path, { signal });
  return answer.ok ? answer.text() : "";
}

/**
 * The text of the page.
 *
 * `shown` is what to copy, `data` the JSON beside it.
 */
export async function makeReport({ title, study, shown, data, signal }) {
  const [sheets, { name }, { statement }] = await Promise.all([
    Promise.all(SHEETS.map((path) => readSheet(path, signal))),
    request(`/v1/studies/${study}`, { signal }),
    request(`/v1/studies/${study}/privacy`, { signal }),
  ]);
  const body = h(
    "body",
    {},
    h("h1", {}, h("bdi", {}, name), `: ${title.toLowerCase()}`),
    h("p", { class: "note" }, `Study ${study} of ${location.origin}, written ${utc(new Date())}.`),
    h("main", { class: "card" }, copyOf(shown)),
    h("section", { class: "card" }, h("h2", {}, "What is protected"), h("blockquote", {}, statement)),
    h("details", {}, h("summary", {}, "The figures as JSON"), h("pre", {}, JSON.stringify(data))),
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(`${name}: ${title.toLowerCase()}`)}</title>
<style>
${sheets.join("\n")}
${MORE}
</style>
</head>
${new XMLSerializer().serializeToString(body)}
</html>
`;
}
