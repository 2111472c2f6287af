/** Compute all families in Node, as they are and changed, and print how they came out. */
import { readFile } from "node:fs/promises";

import { reproduce } from "./families.ts";
import { makeWebTools } from "./web_tools.ts";

const read = async (name: string): Promise<unknown> =>
  JSON.parse(await readFile(new URL(`../vectors/${name}.json`, import.meta.url), "utf8"));
const tools = makeWebTools();
console.log(JSON.stringify([await reproduce(read, tools), await reproduce(read, tools, true)]));
