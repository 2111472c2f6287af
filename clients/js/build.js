/** Build the package into dist/: modules with their types, and one file for pages without a bundler. */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const compiler = join(here, "node_modules/typescript/bin/tsc");
if (!existsSync(compiler)) {
  // npm runs this from any folder, also of a fresh checkout: `npm pack path/to/clients/js`.
  const npm = process.env.npm_execpath;
  const installed = npm && spawnSync(process.execPath, [npm, "ci", "--ignore-scripts"], { cwd: here, stdio: ["ignore", 2, 2] });
  if (installed?.status !== 0) {
    console.error(`build: the tools are missing. Run \`npm ci\` in ${here}`);
    process.exit(1);
  }
}
const { build } = await import("esbuild");

rmSync(join(here, "dist"), { recursive: true, force: true });
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
