/** Write the modules of a folder as JavaScript, for browsers: `node strip.ts SOURCE TARGET`. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";

const [source, target] = process.argv.slice(2) as [string, string];
for (const name of readdirSync(source, { recursive: true, encoding: "utf8" })) {
  if (!name.endsWith(".ts")) continue;
  mkdirSync(dirname(join(target, name)), { recursive: true });
  writeFileSync(join(target, name), stripTypeScriptTypes(readFileSync(join(source, name), "utf8")));
}
