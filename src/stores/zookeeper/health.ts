// Findings about an ensemble for `check()` and doctor (P19). What cannot be read is a finding, not an error:
// servers answer four-letter commands only where they are configured to.

import { connect as connectTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Finding } from "../../core/store.ts";
import type { System } from "../../core/system.ts";
import type { Settings } from "./options.ts";
import type { Address, Connection } from "./wire/connection.ts";

const ANSWER_MS = 1_000;
const LARGEST_ANSWER = 65_536;
/** The first release without known bugs that make a server diverge from its leader. */
const FIXED = [3, 9, 4] as const;
/** The shortest session for which a window of three fifths leaves enough time. */
const TICKS_PER_SESSION = 4;

export async function findings(
  connection: Connection,
  settings: Settings,
  timeoutMs: number,
  system: System,
): Promise<Finding[]> {
  const ask = (word: string, of = connection.address): Promise<string> =>
    fourLetterCommand(of, word, settings, system);
  const [srvr, conf, ...others] = await Promise.all([
    ask("srvr"),
    ask("conf"),
    ...settings.servers.map((one) => ask("srvr", one)),
  ]);
  const silent = settings.servers.filter((_one, at) => others[at] === "");
  return [
    ...sessionTimeout(settings.sessionMs, timeoutMs),
    ...openAcl(settings),
    ...serverMode(srvr),
    ...oldServers(settings.servers, others),
    ...(srvr === "" ? [] : silent.flatMap((one) => unreachable(one))),
    ...outOfService(settings.servers, others),
    ...shortSession(conf, timeoutMs),
  ];
}

function sessionTimeout(askedMs: number, timeoutMs: number): Finding[] {
  if (askedMs === timeoutMs) return [];
  return [
    {
      id: "session-timeout",
      level: "info",
      what: `a session timeout of ${askedMs} ms was asked for, and the server has agreed to ${timeoutMs} ms`,
      why: "the locks of a process that died are free after the time that the server has agreed to",
      fix:
        "ask for a time that the servers allow " +
        "(minSessionTimeout and maxSessionTimeout, by default 2 and 20 ticks)",
    },
  ];
}

function openAcl({ digest }: Settings): Finding[] {
  if (digest !== null) return [];
  return [
    {
      id: "open-acl",
      level: "info",
      what: "the nodes of locks are open to everybody",
      why: "anyone who can reach the servers can take and end every lock",
      fix: "give a user and a password: nodes are then made for that user alone",
    },
  ];
}

function serverMode(srvr: string): Finding[] {
  const mode = /^Mode: (\w+)$/m.exec(srvr)?.[1];
  if (mode === undefined) {
    return [
      {
        id: "settings-unknown",
        level: "info",
        what: "the server does not say what it is (srvr)",
        why: "whether it is one of an ensemble, and how long its ticks are, is not known",
        fix: "add srvr and conf to 4lw.commands.whitelist, or make sure of an ensemble of three yourself",
      },
    ];
  }
  if (mode !== "standalone") return [];
  return [
    {
      id: "one-server",
      level: "warning",
      what: "this is one server, not an ensemble",
      why: "while it is down, no lock is granted and every held lock is lost",
      fix: "run three servers or more",
    },
  ];
}

/** Members of an ensemble only: nodes are lost between servers. */
function oldServers(servers: readonly Address[], said: readonly string[]): Finding[] {
  const old = servers.flatMap(({ host, port }, at) => {
    const [, version = ""] = /^Zookeeper version: ([\d.]+)/m.exec(said[at] ?? "") ?? [];
    const member = /^Mode: (leader|follower|observer)$/m.test(said[at] ?? "");
    return member && losesNodes(version) ? `${host}:${port} (${version})` : [];
  });
  if (old.length === 0) return [];
  return [
    {
      id: "old-zookeeper",
      level: "warning",
      what: `these servers are older than ${FIXED.join(".")}: ${old.join(", ")}`,
      why:
        "one that loses its leader, or is killed while it catches up, may go on with nodes that the others " +
        "have deleted, or without some that they have (ZOOKEEPER-4712, 4785, 4925): a process that is " +
        "connected to it then waits for a key that is free, or gets one that is held, " +
        "and only the fence protects the resource",
      fix:
        `update to ${FIXED.join(".")} or later, and let the resource check the fence; ` +
        "delete the data of a server in doubt and start it again",
    },
  ];
}

export function losesNodes(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const [first, second, third] = FIXED;
  if (major !== first) return major < first;
  return minor === second ? patch < third : minor < second;
}

/** A server that runs answers something, even if it may not answer the command. */
function unreachable({ host, port }: Address): Finding[] {
  return [
    {
      id: "server-unreachable",
      level: "warning",
      what: `${host}:${port} does not answer`,
      why: "the others have to be a majority without it, and one more that fails may be one too many",
      fix: "start it, or take it out of the URL",
    },
  ];
}

function outOfService(servers: readonly Address[], said: readonly string[]): Finding[] {
  return servers
    .filter((_one, at) => said[at]?.includes("not currently serving requests"))
    .map(({ host, port }) => ({
      id: "server-unreachable",
      level: "warning" as const,
      what: `${host}:${port} is not serving requests: it has lost its leader`,
      why: "the others have to be a majority without it, and one more that fails may be one too many",
      fix: "look at its log; it must reach the other servers on its election and quorum ports",
    }));
}

function shortSession(conf: string, timeoutMs: number): Finding[] {
  const tickMs = Number(/^tickTime=(\d+)$/m.exec(conf)?.[1] ?? 0);
  if (tickMs * TICKS_PER_SESSION <= timeoutMs) return [];
  return [
    {
      id: "short-session",
      level: "warning",
      what: `the session timeout of ${timeoutMs} ms is less than four ticks of ${tickMs} ms`,
      why: "a holder's window leaves no room for a leader that is replaced at the worst moment",
      fix: `use a session timeout of ${tickMs * TICKS_PER_SESSION} ms or more, or a shorter tickTime`,
    },
  ];
}

/** The answer to a four-letter command, on a connection of its own; empty if there is none. */
function fourLetterCommand(
  address: Address,
  word: string,
  { tls }: Settings,
  system: System,
): Promise<string> {
  return new Promise((resolve) => {
    let said = "";
    const socket = tls === null ? connectTcp(address) : connectTls({ ...tls, ...address });
    const cancel = system.after(ANSWER_MS, () => socket.destroy());
    socket.once(tls === null ? "connect" : "secureConnect", () => socket.write(word));
    socket.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.length > LARGEST_ANSWER) socket.destroy();
    });
    socket.on("error", () => {});
    socket.once("close", () => {
      cancel();
      resolve(said);
    });
  });
}
