import { mkdirSync, writeFileSync } from "node:fs";
import { transformFile } from "@swc/core";

mkdirSync("out", { recursive: true });
for (const [type, file] of [
  ["es6", "out/main.mjs"],
  ["commonjs", "out/main.cjs"],
]) {
  const jsc = { parser: { syntax: "typescript" }, target: "es2022" };
  const { code } = await transformFile("main.ts", { jsc, module: { type } });
  writeFileSync(file, code);
}
