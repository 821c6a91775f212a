// Builds with one bundler of Next.js, starts the server, and asks both routes.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";

const next = createRequire(import.meta.url).resolve("next/dist/bin/next");
const env = { ...process.env, NEXT_TELEMETRY_DISABLED: "1" };
execFileSync(process.execPath, [next, "build", ...process.argv.slice(2)], { stdio: "inherit", env });
const server = spawn(process.execPath, [next, "start", "--port", "0"], { env });
try {
  const url = await new Promise((resolve, reject) => {
    let said = "";
    server.stdout.on("data", (chunk) => {
      said += chunk;
      const found = /http:\/\/localhost:\d+/.exec(said);
      if (found !== null) resolve(found[0]);
    });
    server.once("exit", () => reject(new Error(`the server ended: ${said}`)));
  });
  const page = await (await fetch(url)).text();
  if (!/fence (<!-- -->)?\d+/.test(page)) throw new Error(page);
  const answer = await (await fetch(`${url}/lock`)).json();
  if (!answer.exclusive || !answer.refused.includes("npm i pg")) throw new Error(JSON.stringify(answer));
  console.log("holdfast works");
} finally {
  server.kill();
  await once(server, "exit");
}
