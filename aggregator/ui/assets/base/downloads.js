// Files from what is shown: JSON, CSV, SVG, PNG and HTML. Nothing is sent anywhere.

import { h } from "./dom.js";
import { makeReport } from "./report.js";

const PAINTED = ["fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order"];
const ZOOM = 2;

export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** One line of CSV; a text that a spreadsheet would run as a formula gets an apostrophe. */
function toLine(cells) {
  return cells
    .map((cell) => {
      const text = cell === null || cell === undefined ? "" : String(cell);
      const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
      return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    })
    .join(",");
}

export function toCsv(rows) {
  return `${rows.map(toLine).join("\r\n")}\r\n`;
}

/** A copy of a picture that looks the same without this page's style sheets. */
export function standAlone(picture) {
  const copy = picture.cloneNode(true);
  const originals = [picture, ...picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
    const look = getComputedStyle(originals[i]);
    if (look.display === "none") node.setAttribute("display", "none");
    for (const name of PAINTED) node.setAttribute(name, look.getPropertyValue(name));
    node.removeAttribute("class");
  });
  const ground = document.createElementNS(picture.namespaceURI, "rect");
  for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: groundOf(picture) })) ground.setAttribute(name, value);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

function groundOf(node) {
  for (let each = node; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (!/rgba\(.*, 0\)|transparent/.test(colour)) return colour;
  }
  return "white";
}

const number = (node, name) => Number(node.getAttribute(name) ?? 0);

/** The outline of a shape; null for an element without one. */
function outline(node) {
  const path = new Path2D();
  const at = (...names) => names.map((name) => number(node, name));
  switch (node.localName) {
    case "path":
      return new Path2D(node.getAttribute("d"));
    case "rect":
      path.rect(...at("x", "y"), node.width.baseVal.value, node.height.baseVal.value);
      return path;
    case "line": {
      const [x1, y1, x2, y2] = at("x1", "y1", "x2", "y2");
      path.moveTo(x1, y1);
      path.lineTo(x2, y2);
      return path;
    }
    case "circle": {
      const [x, y, r] = at("cx", "cy", "r");
      path.arc(x, y, r, 0, 2 * Math.PI);
      return path;
    }
    case "ellipse": {
      const [x, y, rx, ry] = at("cx", "cy", "rx", "ry");
      path.ellipse(x, y, rx, ry, 0, 0, 2 * Math.PI);
      return path;
    }
    default:
      return null;
  }
}

function fillText(context, node, look) {
  context.font = `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
  context.textAlign = { start: "left", middle: "center", end: "right" }[look.textAnchor];
  const place = [node.textContent, number(node, "x"), number(node, "y")];
  if (look.paintOrder.startsWith("stroke") && look.stroke !== "none") {
    context.lineJoin = "round";
    context.strokeText(...place);
  }
  if (look.fill !== "none") context.fillText(...place);
}

/** Paint an element and its children; the policy of this page forbids to load a picture as an image. */
function paint(context, node, opacity) {
  const look = getComputedStyle(node);
  if (look.display === "none" || look.visibility === "hidden") return;
  const visible = opacity * Number(look.opacity);
  context.save();
  const moved = node.transform?.baseVal.consolidate()?.matrix;
  if (moved && node.localName !== "svg") context.transform(moved.a, moved.b, moved.c, moved.d, moved.e, moved.f);
  // A filter of the page is a blur of 5.
  if (look.filter !== "none" && "filter" in context) context.filter = "blur(5px)";
  context.fillStyle = look.fill;
  context.strokeStyle = look.stroke;
  context.lineWidth = parseFloat(look.strokeWidth);
  context.lineCap = look.strokeLinecap;
  context.setLineDash(look.strokeDasharray === "none" ? [] : look.strokeDasharray.split(/[ ,]+/).map(parseFloat));
  context.globalAlpha = visible * Number(look.fillOpacity);
  if (node.localName === "text") fillText(context, node, look);
  const shape = outline(node);
  if (shape && look.fill !== "none") context.fill(shape);
  context.globalAlpha = visible * Number(look.strokeOpacity);
  if (shape && look.stroke !== "none") context.stroke(shape);
  for (const child of node.children) if (!["title", "text"].includes(node.localName)) paint(context, child, visible);
  context.restore();
}

/** A picture as PNG, twice as sharp as on the screen. */
export function toPng(picture) {
  const canvas = h("canvas", { width: ZOOM * number(picture, "width"), height: ZOOM * number(picture, "height") });
  const context = canvas.getContext("2d");
  context.fillStyle = groundOf(picture);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(ZOOM, ZOOM);
  paint(context, picture, 1);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Save what a card shows as a page of its own. */
async function saveReport(name, button, data) {
  const [, study] = /^#studies\/([0-9a-f]{64})/.exec(location.hash) ?? [];
  const title = button.closest("section.card").querySelector("h2").textContent;
  const text = await makeReport({ title, study, shown: button.closest(".result"), data });
  save(`${name}.html`, new Blob([text], { type: "text/html" }));
}

/** Buttons that save what is shown; `rows` and `data` are functions, `pictures` is where to look for the first picture. */
export function downloadButtons(name, { data, rows, pictures }) {
  const button = (text, onclick) => h("button", { type: "button", class: "small", onclick }, text);
  const drawn = () => pictures?.querySelector(".plot svg");
  return h(
    "div",
    { class: "downloads", role: "group", "aria-label": "Downloads" },
    h("span", { class: "note" }, "Download"),
    rows && button("CSV", () => save(`${name}.csv`, new Blob([toCsv(rows())], { type: "text/csv" }))),
    data && button("JSON", () => save(`${name}.json`, new Blob([JSON.stringify(data(), null, 2)], { type: "application/json" }))),
    data && button("Report", ({ target }) => saveReport(name, target, data())),
    pictures && button("SVG", () => save(`${name}.svg`, new Blob([standAlone(drawn())], { type: "image/svg+xml" }))),
    pictures && button("PNG", async () => save(`${name}.png`, await toPng(drawn()))),
  );
}
