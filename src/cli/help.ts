// Parts of --help that commander does not make: examples, and the environment variable of each option.

import { type Command, Help, type Option } from "commander";
import { variableOf } from "./environment.ts";

const EXAMPLES: Readonly<Record<string, string>> = {
  run: `  holdfast run nightly -- ./backup.sh             the second one waits
  holdfast run -n -E 0 -q nightly -- ./backup.sh  the second one exits with 0, silently
  holdfast run -w 5m --ttl 1m deploy -- make       wait at most five minutes
  holdfast run --limit 3 build -- make             three at a time
  holdfast run k -- sh -c 'psql -v fence=$HOLDFAST_FENCE -f job.sql'`,
  ls: `  holdfast ls
  holdfast ls --prefix phone: --json | jq -r .key`,
  inspect: `  holdfast inspect nightly
  holdfast inspect nightly --json | jq '.holders[0].label'`,
  watch: `  holdfast watch                     a screen, the most active keys first; Ctrl-C ends it
  holdfast watch | tee locks.log     one line per change
  holdfast watch --json --every 5s   one object per change`,
  revoke: `  holdfast revoke nightly --reason "it hangs"
  holdfast revoke nightly --reason "host is gone" --fence 1794797104693000 --force --yes`,
  doctor: `  holdfast doctor --store redis://cache:6379
  holdfast doctor --store etcd://h1,h2,h3 --ttl 5s --json | jq '.findings[].id'

Exit code: 69 after a danger or if the store is unreachable; with --strict 1 after a warning; otherwise 0.`,
  completion: `  source <(holdfast completion bash)               in ~/.bashrc
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish`,
  dashboard: `  holdfast dashboard --store redis://cache:6379
  HOLDFAST_TOKEN=... holdfast dashboard --listen 0.0.0.0:8080 --allow-revoke`,
  bench: `  holdfast bench --store redis://cache:6379 --for 5s`,
};

/** Null for a command without examples. */
export function examplesOf(command: Command): string | null {
  return EXAMPLES[command.name()] ?? null;
}

export function addExamples(command: Command): Command {
  const examples = examplesOf(command);
  return examples === null ? command : command.addHelpText("after", `\nExamples:\n${examples}\n`);
}

/** The description of an option and its environment variable. */
export function optionText(option: Option): string {
  const text = new Help().optionDescription(option);
  const variable = variableOf(option);
  return variable === null ? text : `${text} [${variable}]`;
}
