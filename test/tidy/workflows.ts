// Rules for the workflow files of the forge: pinned actions, least permissions, time limits, and only npm
// scripts that exist. A mistake in these files shows only after a push, or in the night.

import { isMap, LineCounter, parseDocument, visit } from "yaml";
import type { Complaint, SourceFile } from "./tree.ts";

interface Workflow {
  readonly permissions?: Readonly<Record<string, string>> | string;
  readonly concurrency?: { readonly group?: string };
  readonly jobs?: Readonly<Record<string, Job>>;
}

interface Job {
  readonly uses?: string;
  readonly "timeout-minutes"?: number;
  readonly permissions?: Readonly<Record<string, string>> | string;
  readonly steps?: readonly { readonly uses?: string; readonly run?: string }[];
}

const PINNED = /^(?:\.\/[\w./-]+|[\w-]+\/[\w./-]+@v\d+)$/;
/** A token of the run that can change nothing in the repository. */
const HARMLESS = new Set(["id-token: write"]);

/** `scripts` are the names of the npm scripts. */
export function checkWorkflow(file: SourceFile, scripts: ReadonlySet<string>): Complaint[] {
  const lines = new LineCounter();
  const document = parseDocument(file.text, { lineCounter: lines });
  const complaint = (message: string, offset = 0): Complaint => ({
    path: file.path,
    line: lines.linePos(offset).line,
    message,
  });
  const broken = [...document.errors, ...document.warnings];
  if (broken.length > 0 || !isMap(document.contents))
    return [complaint(`not valid YAML: ${broken[0]?.message ?? "no map"}`, broken[0]?.pos[0])];
  const messages = checkJobs(document.toJS() as Workflow);
  const complaints = messages.map((message) => complaint(message));
  visit(document, {
    Pair(_, pair) {
      const { key, value } = pair as {
        key: { value?: unknown; range?: number[] };
        value: { value?: unknown };
      };
      if (typeof value?.value !== "string") return;
      const found = checkValue(String(key.value), value.value, scripts);
      for (const message of found) complaints.push(complaint(message, key.range?.[0]));
    },
  });
  return complaints;
}

function checkJobs({ permissions, concurrency, jobs = {} }: Workflow): string[] {
  const messages: string[] = [];
  if (permissions === undefined) messages.push("no permissions: start with `contents: read`");
  if (concurrency?.group === undefined) messages.push("no concurrency group");
  for (const [name, job] of Object.entries(jobs)) {
    if (job.uses === undefined && job["timeout-minutes"] === undefined)
      messages.push(`job ${name} has no timeout-minutes`);
  }
  for (const granted of [permissions, ...Object.values(jobs).map((job) => job.permissions)])
    messages.push(...tooMuch(granted));
  return messages;
}

function tooMuch(granted: Workflow["permissions"]): string[] {
  if (granted === undefined) return [];
  if (typeof granted === "string") return [`permissions are ${granted}: name each one`];
  return Object.entries(granted)
    .filter(([name, right]) => right === "write" && !HARMLESS.has(`${name}: ${right}`))
    .map(([name]) => `permission to write ${name}: no workflow needs it`);
}

function checkValue(key: string, value: string, scripts: ReadonlySet<string>): string[] {
  if (key === "uses" && !PINNED.test(value)) return [`${value}: pin the major version, such as @v6`];
  if (key !== "run") return [];
  const unknown = [...value.matchAll(/\bnpm (?:run(?: -s| --silent)* ([\w:-]+)|(test)\b)/g)]
    .map((match) => match[1] ?? match[2] ?? "")
    .filter((name) => !scripts.has(name))
    .map((name) => `npm run ${name}: package.json has no such script`);
  // What an event contains, such as the name of a branch, would become part of the command.
  const injected = /\$\{\{\s*github\./.test(value)
    ? ["github.* in a command: use an environment variable"]
    : [];
  return [...unknown, ...injected];
}
