// Manual pages, from the same definitions as --help. The build writes them into the package.

import { type Command, Help } from "commander";
import { optionText, examplesOf } from "./help.ts";
import { EXIT_TEXT, makeProgram } from "./program.ts";

export interface ManPage {
  /** Name of the file. */
  readonly file: string;
  readonly text: string;
}

const SECTION = 1;

export function manPages(version: string): readonly ManPage[] {
  const program = makeProgram({ parsed: () => {}, ended: () => {} });
  const others = program.commands.map(nameOf);
  const pages = [
    mainPage(program, version),
    ...program.commands.map((one) => commandPage(one, version, others)),
  ];
  return pages;
}

const nameOf = (command: Command): string => `holdfast-${command.name()}`;

function mainPage(program: Command, version: string): ManPage {
  const commands = program.commands.map(
    (command) =>
      `.TP\n.B ${roff(`holdfast ${command.name()} ${command.usage()}`)}\n${roff(command.description())}`,
  );
  const text = [
    head("holdfast", version, program.description()),
    ".SH SYNOPSIS\n.B holdfast\n.I COMMAND\n[options]",
    `.SH COMMANDS\n${commands.join("\n")}`,
    `.SH EXIT STATUS\n${roff(EXIT_TEXT)}`,
    seeAlso(program.commands.map(nameOf)),
  ];
  return { file: `holdfast.${SECTION}`, text: `${text.join("\n")}\n` };
}

function commandPage(command: Command, version: string, others: readonly string[]): ManPage {
  const name = nameOf(command);
  const options = new Help()
    .visibleOptions(command)
    .map((option) => `.TP\n.B ${roff(option.flags)}\n${roff(optionText(option))}`);
  const examples = examplesOf(command);
  const text = [
    head(name, version, command.description()),
    `.SH SYNOPSIS\n.B holdfast ${command.name()}\n${roff(command.usage())}`,
    `.SH OPTIONS\nThe environment variable of an option stands in brackets.\n${options.join("\n")}`,
    ...(examples === null ? [] : [`.SH EXAMPLES\n.nf\n${roff(examples)}\n.fi`]),
    ...(command.name() === "run" ? [`.SH EXIT STATUS\n${roff(EXIT_TEXT)}`] : []),
    seeAlso(["holdfast", ...others.filter((other) => other !== name)]),
  ];
  return { file: `${name}.${SECTION}`, text: `${text.join("\n")}\n` };
}

function head(name: string, version: string, description: string): string {
  const title = `.TH ${name.toUpperCase()} ${SECTION} "" "holdfast ${version}"`;
  return `${title}\n.SH NAME\n${roff(name)} \\- ${roff(description)}`;
}

function seeAlso(names: readonly string[]): string {
  return `.SH SEE ALSO\n${names.map((name) => `.BR ${roff(name)} (${SECTION})`).join(",\n")}`;
}

/** Backslashes, hyphens that people copy, and dots and quotes that would begin a request. */
function roff(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^[.']/gm, "\\&$&");
}
