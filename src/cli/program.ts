// The command line: names, options and help, for commander. The code of a command is loaded when it is
// called, so that `holdfast run` starts fast.

import { readFileSync } from "node:fs";
import { Argument, Command, Option } from "commander";
import { CommandError, EXIT } from "./exit-codes.ts";
import { readEnvironment } from "./environment.ts";
import type { BenchFlags } from "./bench.ts";
import type { Shell } from "./completion.ts";
import type { DashboardFlags } from "./dashboard.ts";
import type { DoctorFlags } from "./doctor.ts";
import type { LsFlags } from "./ls.ts";
import {
  addStoreOptions,
  collect,
  readCount,
  readDuration,
  readExitCode,
  readFd,
  readFence,
  readSeconds,
  type StoreFlags,
} from "./options.ts";
import { optionText, addExamples } from "./help.ts";
import { printError, print } from "./output.ts";
import type { RevokeFlags } from "./revoke.ts";
import type { RunFlags } from "./run.ts";
import type { SchemaFlags } from "./schema.ts";
import type { WatchFlags } from "./watch.ts";

const RUN_USAGE = "holdfast run [options] KEY -- COMMAND [ARG...]";

const ALLOW = "accept an unsafe setting of the store by its name; repeatable";

const EXAMPLES = `
Examples:
  holdfast run nightly -- ./backup.sh           one backup at a time; the second waits
  holdfast run -n nightly -- ./backup.sh        the second exits with code 75
  holdfast run -w 5m --ttl 1m deploy -- make    wait at most five minutes
  holdfast run --limit 3 build -- make          three at a time
  holdfast run --store redis://cache -n --at-least 50s tick -- ./job
                                                cron on many hosts: one of them runs the job
  holdfast ls                                   list the locks
  holdfast inspect nightly                      show its holders and waiters
  holdfast watch                                live view
  holdfast revoke nightly --reason "it hangs"   take it away from its holder
  holdfast doctor --store redis://cache:6379    check that the store is safe to lock on

Options can come from environment variables, which holdfast COMMAND --help names. NO_COLOR turns colours off.
`;

export const EXIT_TEXT = `Exit codes of run: COMMAND's own; 128+n if it died by signal n; 126/127 if it is not
executable/not found; 64 usage; 69 store unreachable or unsafe; 75 busy; 79 lease lost while COMMAND ran.`;

export interface Listener {
  /** Called before a command runs, with its flags from the command line and the environment. */
  readonly parsed: (flags: StoreFlags) => void;
  /** Called with the exit code of the command. */
  readonly ended: (exitCode: number) => void;
}

export function makeProgram({ parsed, ended }: Listener): Command {
  const program = new Command("holdfast")
    .description("Run a command under a lock, on one machine or many.")
    .version(version(), "-V, --version")
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: print,
      outputError: (text) => printError(`${reword(text)} (see holdfast --help)`),
    })
    .configureHelp({
      subcommandTerm: (command) => `${command.name()} ${command.usage()}`,
      visibleArguments: () => [],
      optionDescription: optionText,
    })
    .addHelpText("after", `${EXAMPLES}\n${EXIT_TEXT}\n`);
  addRun(program, ended);
  addLs(program, ended);
  addInspect(program, ended);
  addWatch(program, ended);
  addRevoke(program, ended);
  addDoctor(program, ended);
  addBench(program, ended);
  addDashboard(program, ended);
  addSchema(program, ended);
  addCompletion(program, ended);
  for (const command of program.commands) {
    addExamples(command);
    command.configureOutput({
      outputError: (text) => printError(`${reword(text)} (see holdfast ${command.name()} --help)`),
    });
  }
  return program.hook("preAction", (_program, command) => {
    readEnvironment(command, process.env);
    parsed(command.opts());
  });
}

function addRun(program: Command, ended: (exitCode: number) => void): void {
  const run = program
    .command("run")
    .description("hold KEY while COMMAND runs; wait for it without limit unless -w or -n is given")
    .usage("[options] KEY -- COMMAND [ARG...]")
    .argument("<key>")
    .argument("[command...]")
    .passThroughOptions();
  run
    .option(
      "-w, --wait <duration>",
      "give up after this time: seconds, or 250ms, 30s, 5m, 1h (default no limit)",
      readSeconds,
    )
    .option("-n, --no-wait", "give up immediately if KEY is busy")
    .option("--ttl <duration>", "length of the lease, renewed while COMMAND runs (default 30s)", readSeconds)
    .option("--shared", "take a shared lock: others with --shared may hold KEY too")
    .option("--limit <n>", "allow N holders at a time (default 1)", readCount)
    .option(
      "--at-least <duration>",
      "keep KEY taken at least this long, even if COMMAND ends earlier",
      readDuration,
    )
    .option("--label <text>", "name of the holder for people (default host:pid)")
    .addOption(
      new Option("--on-lost <what>", "what COMMAND gets when the lease is in danger")
        .choices(["term", "kill", "warn"])
        .default("term"),
    )
    .option("--allow <name>", ALLOW, collect)
    .option("-E, --busy-code <n>", "exit code if KEY is busy (default 75)", readExitCode)
    .option(
      "--json-to <fd>",
      "write the JSON object of --json to this descriptor, and messages to stderr",
      readFd,
    )
    .option("-q, --quiet", "no messages on stderr");
  addStoreOptions(run).action(async (key: string, rest: readonly string[], flags: RunFlags) => {
    const command = commandOf(rest);
    ended(await (await import("./run.ts")).run(key, command, flags));
  });
}

function addLs(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program.command("ls").usage("[options]").description("list the keys that are held or waited for"),
  )
    .option("--prefix <text>", "only keys with this prefix")
    .option("--limit <n>", "list at most N keys", readCount)
    .action(async (flags: LsFlags) => ended(await (await import("./ls.ts")).ls(flags)));
}

function addInspect(program: Command, ended: (exitCode: number) => void): void {
  const inspect = program.command("inspect").usage("[options] KEY");
  addStoreOptions(inspect.description("show the holders and waiters of KEY"))
    .argument("<key>")
    .action(async (key: string, flags: StoreFlags) => {
      ended(await (await import("./inspect.ts")).inspect(key, flags));
    });
}

function addWatch(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program
      .command("watch")
      .usage("[options]")
      .description("live view of the locks; one line per change if stdout is not a terminal"),
  )
    .option("--prefix <text>", "only keys with this prefix")
    .option("--every <duration>", "time between two lists (default 1s)", readDuration)
    .option("--looks <n>", "end after N lists", readCount)
    .action(async (flags: WatchFlags) => ended(await (await import("./watch.ts")).watch(flags)));
}

function addRevoke(program: Command, ended: (exitCode: number) => void): void {
  const revoke = program.command("revoke").usage("[options] KEY");
  addStoreOptions(revoke.description("take KEY away from its holder"))
    .argument("<key>")
    .option("--reason <text>", "reason, required; the holder gets it")
    .option("--fence <n>", "revoke only the holder with this fence", readFence)
    .option("--force", "free KEY immediately, without waiting for the holder to release it")
    .option("--yes", "do not ask for confirmation; required without a terminal")
    .option("--label <text>", "who revokes, for the audit event (default host:pid)")
    .action(async (key: string, flags: RevokeFlags) => {
      ended(await (await import("./revoke.ts")).revoke(key, flags));
    });
}

function addDoctor(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program.command("doctor").usage("[options]").description("check whether the store is safe to lock on"),
  )
    .option("--ttl <duration>", "the ttl that you will use (default 30s)", readSeconds)
    .option("--strict", "exit with 1 after a warning")
    .action(async (flags: DoctorFlags) => ended(await (await import("./doctor.ts")).doctor(flags)));
}

function addBench(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(program.command("bench").usage("[options]").description("measure the speed of the store"))
    .option("--for <duration>", "time of each of three measurements (default 2s)", readDuration)
    .option("--tasks <n>", "number of concurrent tasks (default 16)", readCount)
    .option("--allow <name>", ALLOW, collect)
    .action(async (flags: BenchFlags) => ended(await (await import("./bench.ts")).bench(flags)));
}

function addDashboard(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program
      .command("dashboard")
      .usage("[options]")
      .description("serve a web page that shows the locks, until a signal ends it"),
  )
    .option("--listen <host:port>", "address to listen on (default 127.0.0.1:0, any free port)")
    .option("--allow-revoke", "let the page revoke; without --token, a token is generated and printed")
    .option("--token <text>", "token that the page asks for; required unless the address is loopback")
    .action(async (flags: DashboardFlags) => ended(await (await import("./dashboard.ts")).dashboard(flags)));
}

function addSchema(program: Command, ended: (exitCode: number) => void): void {
  program
    .command("schema")
    .usage("[options] postgres|mysql")
    .description("print the statements that create the tables of a store")
    .argument("<store>")
    .option("--table <name>", "prefix of the table names (default holdfast)")
    .action(async (store: string, flags: SchemaFlags) => {
      ended(await (await import("./schema.ts")).schema(store, flags));
    });
}

function addCompletion(program: Command, ended: (exitCode: number) => void): void {
  program
    .command("completion")
    .usage("bash|zsh|fish")
    .description("print a completion script for a shell")
    .addArgument(new Argument("<shell>").choices(["bash", "zsh", "fish"]))
    .action(async (shell: Shell) => ended((await import("./completion.ts")).completion(shell, program)));
}

/** Reads "--" and COMMAND after KEY. Rejects everything else, so that no option reaches the wrong program. */
function commandOf(rest: readonly string[]): readonly string[] {
  const [dashes, ...command] = rest;
  if (dashes !== "--" && rest.includes("--")) throw usage("options must stand before KEY");
  if (dashes !== "--" && rest.length > 0) throw usage("-- must stand between KEY and COMMAND");
  if (command.length === 0) throw usage("COMMAND is missing");
  if (command[0] === "") throw usage("COMMAND must not be empty");
  return command;
}

function usage(what: string): CommandError {
  return new CommandError(`${what}: ${RUN_USAGE}`, EXIT.usage);
}

/** The wording of commander and ours. The parsers of options.ts throw what completes "must be". */
const REWORDED: readonly (readonly [RegExp, string])[] = [
  [/^error: /, ""],
  [/\s*\n\s*/g, " "],
  [/^(option .*) is invalid\. Allowed choices are (.*)\.$/s, "$1 is invalid. one of $2"],
  [/^option '(?:-\w, )?(--[\w-]+)[^']*' argument '(.*)' is invalid\. (.*)$/s, '$1 must be $3, got "$2"'],
  [/^option '(?:-\w, )?(--[\w-]+)[^']*' argument missing$/, "$1 needs a value"],
  [
    /^command-argument value '(.*)' is invalid for argument '(\w+)'\. Allowed choices are (.*)\.$/s,
    'the $2 must be one of $3, got "$1"',
  ],
  [/^missing required argument '(\w+)'$/, "the $1 is missing"],
];

function reword(text: string): string {
  return REWORDED.reduce((message, [pattern, words]) => message.replace(pattern, words), text.trim());
}

/** Set by the bundle. */
declare const HOLDFAST_VERSION: string | undefined;

function version(): string {
  if (typeof HOLDFAST_VERSION === "string") return HOLDFAST_VERSION;
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;
}
