// `node --import tsx scripts/conformance-server.ts redis|postgres`: the server of a conformance run, in a
// process of Node, whatever runtime the run itself is on. One line in, one line of JSON out:
// `start`, `restart`, `footprint NAMESPACE`. It stops at the end of its input.

import { createInterface } from "node:readline";
import { postgresSubject } from "../test/stores/postgres/subject.ts";
import { redisSubject } from "../test/stores/redis/subject.ts";

const SUBJECTS = { redis: redisSubject, postgres: postgresSubject };

const { store, server } = SUBJECTS[process.argv[2] as keyof typeof SUBJECTS]();

async function answer(line: string): Promise<unknown> {
  const [command, namespace = ""] = line.split(" ");
  if (command === "footprint") return await store.footprint?.(namespace);
  await (command === "restart" ? server.restart?.() : server.start?.());
  return (store.child?.() as { readonly url: string } | undefined)?.url;
}

try {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(line)));
  }
} finally {
  await server.stop?.();
}
