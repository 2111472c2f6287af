// A long list: one view of it at a time, and a search over all of it.

import { request } from "./api.js";
import { announce, h } from "./dom.js";
import { count, whole } from "./words.js";

const VIEW = 50;
const BATCH = 1000;
const WAIT_MS = 200;

/**
 * Show a paged list of the server.
 *
 * `render(items, all)` draws a view. `textOf(item)` is what a search looks through; without it there is no
 * search. Pages are read when a view needs them, and all of them when somebody searches.
 */
export async function listing(path, { render, textOf = null, noun = "item", nouns = `${noun}s`, signal }) {
  const items = [];
  let [next, isWhole, first, words] = [null, false, 0, ""];

  async function load(limit) {
    const query = new URLSearchParams({ limit, ...(next === null ? {} : { page: next }) });
    const found = await request(`${path}?${query}`, { signal });
    items.push(...found.items);
    next = found.next_page;
    isWhole = next === null;
  }
  async function loadTo(n) {
    while (!isWhole && items.length < n) await load(Number.isFinite(n) ? VIEW : BATCH);
  }
  const matching = () => (words ? items.filter((item) => textOf(item).toLowerCase().includes(words)) : items);

  const place = h("div");
  const position = h("span", { class: "note" });
  const back = h("button", { type: "button" }, "Previous");
  const forth = h("button", { type: "button" }, "Next");
  const find = h("input", { type: "search", "aria-label": `Find a ${noun}`, placeholder: `Find a ${noun}`, autocomplete: "off", spellcheck: "false", dir: "auto" });
  const pages = h("nav", { class: "pages", "aria-label": `Pages of ${nouns}` }, back, forth, position);

  function draw() {
    const found = matching();
    const shown = found.slice(first, first + VIEW);
    place.replaceChildren(words && !found.length ? h("p", { class: "empty" }, `No ${noun} of ${whole(items.length)} matches.`) : render(shown, items));
    back.disabled = first === 0;
    forth.disabled = isWhole || words ? first + VIEW >= found.length : false;
    pages.hidden = isWhole && items.length <= VIEW && !words;
    const total = words ? `${whole(found.length)} of ${count(items.length, noun, nouns)}` : isWhole ? count(items.length, noun, nouns) : `more than ${count(items.length, noun, nouns)}`;
    position.textContent = found.length ? `${whole(first + 1)} to ${whole(first + shown.length)} of ${total}` : "";
  }
  async function turn(by) {
    await loadTo(first + by + VIEW + 1);
    first = Math.max(0, Math.min(first + by, matching().length - 1));
    draw();
    announce(position.textContent);
  }
  let timer = 0;
  find.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      await loadTo(Infinity).catch(() => {});
      if (signal.aborted) return;
      words = find.value.trim().toLowerCase();
      first = 0;
      draw();
      announce(position.textContent);
    }, WAIT_MS);
  });
  back.addEventListener("click", () => turn(-VIEW).catch(() => {}));
  forth.addEventListener("click", () => turn(VIEW).catch(() => {}));

  // One more than a view shows whether there is another.
  await load(VIEW + 1);
  draw();
  const isShort = isWhole && items.length < 8;
  return h("div", { class: "listing" }, textOf && !isShort && find, place, pages);
}
