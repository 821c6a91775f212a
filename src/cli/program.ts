// The command line as commander knows it: names, options, help. Each command's own code is loaded when it
// is called, so that `holdfast run` starts fast. Nothing here touches a store.

import { readFileSync } from "node:fs";
import { Argument, Command, Option } from "commander";
import { CommandError, EXIT } from "./exit-codes.ts";
import { readEnvironment } from "./environment.ts";
import type { BenchFlags } from "./bench.ts";
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
import { described, withExamples } from "./help.ts";
import { complain, print } from "./output.ts";
import type { RevokeFlags } from "./revoke.ts";
import type { RunFlags } from "./run.ts";
import type { SchemaFlags } from "./schema.ts";
import type { WatchFlags } from "./watch.ts";

const SHAPE = "holdfast run [options] KEY -- COMMAND [ARG...]";

const ALLOW = "accept an unsafe setting of the store by its name; may be repeated";

const EXAMPLES = `
Examples:
  holdfast run nightly -- ./backup.sh           one backup at a time; the next one waits
  holdfast run -n nightly -- ./backup.sh        or gives up at once, with exit code 75
  holdfast run -w 5m --ttl 1m deploy -- make    wait five minutes at most
  holdfast run --limit 3 build -- make          three at a time
  holdfast run --store redis://cache -n --at-least 50s tick -- ./job
                                                cron on many hosts, one of them runs it
  holdfast ls                                   what is held, by whom, since when
  holdfast inspect nightly                      who holds it and who waits
  holdfast watch                                the same, live
  holdfast revoke nightly --reason "it hangs"   take it away from its holder
  holdfast doctor --store redis://cache:6379    is this store safe to lock on?

Every option may be an environment variable; holdfast COMMAND --help names them. NO_COLOR takes the colours away.
`;

export const EXIT_TEXT = `Exit codes of run: COMMAND's own; 128+n if it died by signal n; 126/127 if it is not
executable/not found; 64 usage; 69 store unreachable or unsafe; 75 busy; 79 lease lost while COMMAND ran.`;

export interface Listener {
  /** Before a command runs: its flags, of which some may have come from the environment. */
  readonly chosen: (flags: StoreFlags) => void;
  /** The exit code of the command that ran. */
  readonly ended: (exitCode: number) => void;
}

export function makeProgram({ chosen, ended }: Listener): Command {
  const program = new Command("holdfast")
    .description("Holds a lock while a command runs, on one machine or many.")
    .version(version(), "-V, --version")
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: print,
      outputError: (text) => complain(`${oneLine(text)} (see holdfast --help)`),
    })
    .configureHelp({
      subcommandTerm: (command) => `${command.name()} ${command.usage()}`,
      visibleArguments: () => [],
      optionDescription: described,
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
  program.commands.forEach(withExamples);
  return program.hook("preAction", (_program, command) => {
    readEnvironment(command, process.env);
    chosen(command.opts());
  });
}

function addRun(program: Command, ended: (exitCode: number) => void): void {
  const run = program
    .command("run")
    .description("hold KEY while COMMAND runs; waits for ever unless told otherwise")
    .usage("[options] KEY -- COMMAND [ARG...]")
    .argument("<key>")
    .argument("[command...]")
    .passThroughOptions();
  run
    .option("-w, --wait <duration>", "give up after this long; plain seconds or 250ms, 5m", readSeconds)
    .option("-n, --no-wait", "give up at once if it is busy")
    .option("--ttl <duration>", "length of the lease, renewed while COMMAND runs (default 30s)", readSeconds)
    .option("--shared", "share it with others that say --shared")
    .option("--limit <n>", "so many may hold it at once", readCount)
    .option("--at-least <duration>", "keep it taken for so long, even if COMMAND ends sooner", readDuration)
    .option("--label <text>", "who holds it, for people (default host:pid)")
    .addOption(
      new Option("--on-lost <what>", "what COMMAND gets when the lease is endangered")
        .choices(["term", "kill", "warn"])
        .default("term"),
    )
    .option("--allow <name>", ALLOW, collect)
    .option("-E, --busy-code <n>", "exit code when busy (default 75)", readExitCode)
    .option("--json-to <fd>", "the JSON object of --json to this descriptor, and words to stderr", readFd)
    .option("-q, --quiet", "no words on stderr");
  addStoreOptions(run).action(async (key: string, rest: readonly string[], flags: RunFlags) => {
    const command = commandOf(rest);
    ended(await (await import("./run.ts")).run(key, command, flags));
  });
}

function addLs(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program.command("ls").usage("[options]").description("list the keys that are held or waited for"),
  )
    .option("--prefix <text>", "only keys that start with this")
    .option("--limit <n>", "at most so many", readCount)
    .action(async (flags: LsFlags) => ended(await (await import("./ls.ts")).ls(flags)));
}

function addInspect(program: Command, ended: (exitCode: number) => void): void {
  const inspect = program.command("inspect").usage("[options] KEY");
  addStoreOptions(inspect.description("show who holds KEY and who waits for it"))
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
      .description("what is held and waited for, live; a line per change when it is no terminal"),
  )
    .option("--prefix <text>", "only keys that start with this")
    .option("--every <duration>", "how often to look (default 1s)", readDuration)
    .option("--looks <n>", "end after so many looks", readCount)
    .action(async (flags: WatchFlags) => ended(await (await import("./watch.ts")).watch(flags)));
}

function addRevoke(program: Command, ended: (exitCode: number) => void): void {
  const revoke = program.command("revoke").usage("[options] KEY");
  addStoreOptions(revoke.description("take KEY away from its holder, who is told"))
    .argument("<key>")
    .option("--reason <text>", "why; it must be said, and the holder is told")
    .option("--fence <n>", "only the holder with this fence", readFence)
    .option("--force", "free at once, without waiting for the holder to let go")
    .option("--yes", "do not ask for the key once more")
    .option("--label <text>", "who revokes, for the record (default host:pid)")
    .action(async (key: string, flags: RevokeFlags) => {
      ended(await (await import("./revoke.ts")).revoke(key, flags));
    });
}

function addDoctor(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(program.command("doctor").usage("[options]").description("is this store safe to lock on?"))
    .option("--ttl <duration>", "the ttl that will be used (default 30s)", readSeconds)
    .option("--strict", "exit code 1 after a warning")
    .action(async (flags: DoctorFlags) => ended(await (await import("./doctor.ts")).doctor(flags)));
}

function addBench(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program.command("bench").usage("[options]").description("how fast is this store from here?"),
  )
    .option("--for <duration>", "each of three measurements (default 2s)", readDuration)
    .option("--tasks <n>", "so many at once (default 16)", readCount)
    .option("--allow <name>", ALLOW, collect)
    .action(async (flags: BenchFlags) => ended(await (await import("./bench.ts")).bench(flags)));
}

function addDashboard(program: Command, ended: (exitCode: number) => void): void {
  addStoreOptions(
    program
      .command("dashboard")
      .usage("[options]")
      .description("a page in the browser, until a signal ends it"),
  )
    .option("--listen <host:port>", "where to listen (default 127.0.0.1:0, any free port)")
    .option("--allow-revoke", "the page may revoke; a token is made and printed unless one is given")
    .option("--token <text>", "what the page asks for; needed for an address that is not loopback")
    .action(async (flags: DashboardFlags) => ended(await (await import("./dashboard.ts")).dashboard(flags)));
}

function addSchema(program: Command, ended: (exitCode: number) => void): void {
  program
    .command("schema")
    .usage("[options] postgres|mysql")
    .description("print the statements that create the tables of a store")
    .argument("<store>")
    .option("--table <name>", "what the names of the tables begin with (default holdfast)")
    .action(async (store: string, flags: SchemaFlags) => {
      ended(await (await import("./schema.ts")).schema(store, flags));
    });
}

function addCompletion(program: Command, ended: (exitCode: number) => void): void {
  program
    .command("completion")
    .usage("bash|zsh|fish")
    .description("print the completion of this command for a shell")
    .addArgument(new Argument("<shell>").choices(["bash", "zsh", "fish"]))
    .action(async (shell: string) => ended((await import("./completion.ts")).completion(shell, program)));
}

/**
 * What stands after KEY: "--" and the command. Everything else is refused, so that no flag goes to the
 * wrong program.
 */
function commandOf(rest: readonly string[]): readonly string[] {
  const [dashes, ...command] = rest;
  if (dashes !== "--" && rest.includes("--")) throw usage("only -- may follow KEY, options go before it");
  if (dashes !== "--" || command.length === 0) throw usage("there is no COMMAND after KEY --");
  if (command[0] === "") throw usage("COMMAND is empty");
  return command;
}

function usage(what: string): CommandError {
  return new CommandError(`${what}: ${SHAPE}`, EXIT.usage);
}

function oneLine(text: string): string {
  return text
    .trim()
    .replace(/^error: /, "")
    .replace(/\s*\n\s*/g, " ");
}

/** Set by the bundle. */
declare const HOLDFAST_VERSION: string | undefined;

function version(): string {
  if (typeof HOLDFAST_VERSION === "string") return HOLDFAST_VERSION;
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;
}
