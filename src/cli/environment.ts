// Options from environment variables: --busy-code is HOLDFAST_BUSY_CODE. The command line wins. The variables
// that `run` sets for COMMAND (HOLDFAST_KEY, HOLDFAST_FENCE, HOLDFAST_LABEL) are not options, so a `run`
// inside COMMAND does not inherit them.

import { type Command, InvalidArgumentError, type Option } from "commander";
import { CommandError, EXIT } from "./exit-codes.ts";

/** Options whose regular name is a variable that `run` sets for COMMAND. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  label: "HOLDFAST_RUN_LABEL",
  fence: "HOLDFAST_REVOKE_FENCE",
};
const OFF: ReadonlySet<string> = new Set(["", "0", "false", "no"]);

/** Decisions for one call, which a shell profile must not make. */
const NO_VARIABLE: ReadonlySet<string> = new Set(["force", "yes", "reason", "help", "version"]);

/** Null for an option that only the command line can set. */
export function variableOf(option: Option): string | null {
  const name = option.name();
  if (NO_VARIABLE.has(name)) return null;
  return OTHER_NAMES[name] ?? `HOLDFAST_${name.replaceAll("-", "_").toUpperCase()}`;
}

/** Sets the options that the command line did not set. An option and its negation count as one. */
export function readEnvironment(command: Command, environment: NodeJS.ProcessEnv): void {
  for (const option of command.options) {
    const attribute = option.attributeName();
    const source = command.getOptionValueSource(attribute) as string | undefined;
    const variable = variableOf(option);
    const text = variable === null ? undefined : environment[variable];
    if (text === undefined || text === "" || source === "cli" || source === "env") continue;
    const value = valueOf(option, text);
    if (value !== undefined) command.setOptionValueWithSource(attribute, value, "env");
  }
}

function valueOf(option: Option, text: string): unknown {
  if (option.negate) return OFF.has(text) ? undefined : false;
  if (option.isBoolean()) return OFF.has(text) ? undefined : true;
  try {
    if (option.argChoices !== undefined && !option.argChoices.includes(text))
      throw new InvalidArgumentError(`one of ${option.argChoices.join(", ")}`);
    return option.parseArg === undefined ? text : (option.parseArg(text, undefined) as unknown);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandError(`${variableOf(option)} must be ${why}, got ${JSON.stringify(text)}`, EXIT.usage);
  }
}
