// A server that the environment names by URL, used instead of one of our own. It is asked whether it answers, and it is
// never ended: tests that must kill a server start one with `own: true`.

import type { RunningServer } from "./process.ts";

export interface GivenOptions {
  readonly name: string;
  /** Name of the environment's variable. */
  readonly variable: string;
  readonly defaultPort: number;
  readonly answers: (host: string, port: number) => Promise<boolean>;
}

/** null when the variable is not set. Throws when it is set and nothing answers there. */
export async function givenServer(options: GivenOptions): Promise<RunningServer | null> {
  const url = process.env[options.variable];
  if (url === undefined || url === "") return null;
  const { host, port } = address(url, options);
  let reason = "it gave another answer";
  const answers = await options.answers(host, port).catch((error: unknown) => {
    reason = String(error);
    return false;
  });
  if (!answers) {
    throw new Error(
      `no ${options.name} answers at ${host}:${port}, which ${options.variable} names: ${reason}`,
    );
  }
  return {
    url,
    port,
    pid: null,
    kill: (signal) => {
      throw new Error(
        `${options.name} was given by ${options.variable}, so it is not ours to send ${signal} to`,
      );
    },
    stop: () => Promise.resolve(),
  };
}

function address(url: string, options: GivenOptions): { host: string; port: number } {
  if (!URL.canParse(url) || new URL(url).hostname === "") {
    throw new Error(`${options.variable} is not a URL with a host: ${JSON.stringify(url)}`);
  }
  const parsed = new URL(url);
  const port = parsed.port === "" ? options.defaultPort : Number(parsed.port);
  return { host: parsed.hostname.replace(/^\[|\]$/g, ""), port };
}
