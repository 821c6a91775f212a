const { join } = require("node:path");

module.exports = {
  mode: "production",
  target: "node20",
  entry: { esm: "./main.mjs", commonjs: "./main.cjs" },
  output: { path: join(__dirname, "out"), filename: "[name].cjs" },
};
