/** A server bundle that contains its dependencies. */
export default {
  build: { ssr: "main.ts", outDir: "out" },
  ssr: { noExternal: true },
};
