// Prints the licences of the packages in the bundle that esbuild's metafile (argument 1) lists.
import { readFileSync, readdirSync } from "node:fs";

const { inputs } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const folders = [...new Set(Object.keys(inputs).map(name => name.match(/^.*node_modules\/[^/]+/)?.[0]))];
const texts = new Map();
for (const folder of folders.filter(Boolean).sort()) {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find(name => /^licen[cs]e/i.test(name));
  if (!file) throw new Error(`${name} has no file of its licence`);
  const text = readFileSync(`${folder}/${file}`, "utf8").replaceAll("\r", "").trim();
  texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
}
for (const [text, names] of texts) console.log(`${names.join(", ")}\n\n${text}\n\n${"-".repeat(72)}\n`);
