/** Build the package into dist/: modules with their types, and one file for pages without a bundler. */
import { spawnSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
rmSync(join(here, "dist"), { recursive: true, force: true });

const compiler = join(here, "node_modules/typescript/bin/tsc");
const done = spawnSync(process.execPath, [compiler, "-p", join(here, "tsconfig.build.json")], { stdio: "inherit" });
if (done.status !== 0) process.exit(done.status ?? 1);

await build({
  absWorkingDir: here,
  entryPoints: ["src/index.ts"],
  outfile: "dist/browser/sfumato-device.js",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
});
copyFileSync(join(here, "../../LICENSE"), join(here, "LICENSE"));
