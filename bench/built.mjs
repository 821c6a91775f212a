// For `node --import`: runs TypeScript, and gives the suites the package as it is published. The source,
// run by tsx, would be measured with a call per function that the build does not have.

process.env.TSX_TSCONFIG_PATH = new URL("tsconfig.json", import.meta.url).pathname;
await import("tsx");
