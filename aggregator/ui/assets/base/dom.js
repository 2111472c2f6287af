// Elements from data. External text becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => (child ?? false) !== false));
  return node;
}

/** Create an HTML element; an attribute that is a function becomes a listener, such as `onclick`. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A place for a picture, drawn for the width of the place; one that may be wider has a label and scrolls. */
export function picture(draw, { label = null, drawn = () => {} } = {}) {
  const scrolls = label ? { class: "scroll plot", role: "region", "aria-label": label, tabindex: "0" } : { class: "plot" };
  const canvas = h("div", scrolls);
  let width = 0;
  function redraw() {
    if (!width) return;
    canvas.replaceChildren(draw(width));
    drawn();
  }
  new ResizeObserver(() => {
    if (canvas.clientWidth === width) return;
    width = canvas.clientWidth;
    redraw();
  }).observe(canvas);
  return { canvas, redraw };
}

/** A list of warnings; nothing without any. */
export function warningList(texts, label = "Warnings") {
  return texts.length > 0 && h("ul", { class: "warnings", "aria-label": label }, texts.map((text) => h("li", {}, text)));
}

/** Names and values. */
export function factList(facts) {
  return h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** Parts that are open where there is room, and folded on a phone. */
export function fold(title, ...nodes) {
  return h("details", { open: isWide() }, h("summary", {}, title), nodes);
}

export const isWide = () => matchMedia("(min-width: 40rem)").matches;

/** Announce a text to screen readers. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

/** A name of somebody's choice, which may run from right to left. */
export function named(text) {
  return h("bdi", {}, text);
}

/** An identity, whole; it folds where it has no room. */
export function identity(text) {
  return h("code", { class: "identity" }, text);
}

/** Create a table that scrolls sideways; one that stacks shows each row as a card on a phone. */
export function table(caption, heads, rows, { numeric = [], rowClass = null, stacks = false } = {}) {
  const align = (i) => (numeric.includes(i) ? "number" : null);
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      { class: stacks && "stacks" },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head, i) => h(head === "" ? "td" : "th", { scope: head === "" ? null : "col", class: align(i) }, typeof head === "string" ? named(head) : head)))),
      h(
        "tbody",
        {},
        rows.map((cells, row) =>
          h(
            "tr",
            { class: rowClass && rowClass(row), "data-row": row },
            cells.map((cell, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: align(i), "data-head": stacks && (i || typeof cell === "string") ? heads[i] : null }, stacks && i ? h("div", {}, cell) : cell)),
          ),
        ),
      ),
    ),
  );
}

/** Show an RFC 9457 problem with its field, rule and fix. */
export function problemBox(problem) {
  const facts = [
    ["field", problem.field],
    ["rule", problem.rule],
    ["fix", problem.fix],
  ].filter(([, value]) => value);
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("h3", {}, problem.title),
    h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    problem.page && h("p", {}, h("a", { href: problem.page }, "about this problem")),
  );
}
