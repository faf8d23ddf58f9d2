// Writes vendor.js and its THIRD_PARTY.txt to the assets of the report. See README.md.
import { build } from "esbuild";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = dirname(fileURLToPath(import.meta.url));
const assets = join(folder, "../../irrun/inspection/report/assets");

const result = await build({
  absWorkingDir: folder,
  entryPoints: ["vendor.js"],
  outfile: join(assets, "vendor.js"),
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "vendor",
  target: "es2020",
  legalComments: "none",
  charset: "ascii",
  banner: { js: "/* Third-party libraries; see THIRD_PARTY.txt. Built by tools/report_bundle. */" },
  metafile: true,
});

/** Returns the folders of the packages whose files are part of the bundle. */
function listPackages(metafile) {
  const output = Object.values(metafile.outputs)[0];
  const paths = Object.entries(output.inputs).filter(([, input]) => input.bytesInOutput > 0).map(([path]) => path);
  const names = paths.map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean);
  return [...new Set(names)].sort();
}

/** Returns the name, version and licence of a package as text. */
async function describePackage(name) {
  const path = join(folder, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(path, "package.json"), "utf8"));
  const file = (await readdir(path)).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? await readFile(join(path, file), "utf8") : `Licence: ${license}`;
  return `${name} ${version} (${license})\n\n${text.trim()}\n`;
}

// The bundle of dagre contains graphlib without its path.
const names = [...new Set([...listPackages(result.metafile), "@dagrejs/graphlib"])].sort();
const notices = await Promise.all(names.map(describePackage));
const rule = `\n${"-".repeat(80)}\n\n`;
await writeFile(
  join(assets, "THIRD_PARTY.txt"),
  `vendor.js, which is part of every report, contains these packages:\n\n${notices.join(rule)}`,
);
console.log(`bundled ${names.join(", ")}`);
