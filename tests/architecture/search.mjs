// Searches the site as a reader's browser does: `node search.mjs WORKER INDEX` reads a JSON list of
// queries from standard input, and prints for each the pages found, the best first.
// WORKER is the script of the theme that the site itself runs.
import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

const [worker, index] = process.argv.slice(2);
const answers = [];
let receive;
const world = {
  addEventListener: (_, handler) => (receive = handler),
  postMessage: (message) => answers.push(message),
  console,
};
world.self = world;
runInContext(readFileSync(worker, "utf8"), createContext(world));
const [SETUP, QUERY] = [0, 2];
await receive({ data: { type: SETUP, data: { ...JSON.parse(readFileSync(index, "utf8")), options: {} } } });
const found = [];
for (const query of JSON.parse(readFileSync(0, "utf8"))) {
  await receive({ data: { type: QUERY, data: query } });
  const pages = answers.at(-1).data.items.map(([best]) => best.location.split("#")[0]);
  found.push([...new Set(pages)]);
}
console.log(JSON.stringify(found));
