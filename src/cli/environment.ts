// Every flag may come from the environment too: --busy-code is HOLDFAST_BUSY_CODE. A flag on the command
// line wins. What a child of `run` is told (HOLDFAST_KEY, HOLDFAST_FENCE, HOLDFAST_LABEL) is no flag, so
// that one run inside another starts anew.

import { type Command, InvalidArgumentError, type Option } from "commander";
import { CommandError, EXIT } from "./exit-codes.ts";

/** Names that would be taken for what a child was told. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  label: "HOLDFAST_RUN_LABEL",
  fence: "HOLDFAST_REVOKE_FENCE",
};
const OFF: ReadonlySet<string> = new Set(["", "0", "false", "no"]);

/** What an operator decides each time must not come from a profile that was written once. */
const NO_VARIABLE: ReadonlySet<string> = new Set(["force", "yes", "reason", "help", "version"]);

/** null for an option that only the command line can give. */
export function variableOf(option: Option): string | null {
  const name = option.name();
  if (NO_VARIABLE.has(name)) return null;
  return OTHER_NAMES[name] ?? `HOLDFAST_${name.replaceAll("-", "_").toUpperCase()}`;
}

/** Fills in what the command line left open. A flag and its negation count as one. */
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
      throw new InvalidArgumentError(`It is one of ${option.argChoices.join(", ")}.`);
    return option.parseArg === undefined ? text : (option.parseArg(text, undefined) as unknown);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandError(`${variableOf(option)} is ${JSON.stringify(text)}. ${why}`, EXIT.usage);
  }
}
