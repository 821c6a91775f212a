// `holdfast completion bash|zsh|fish`: prints a completion script, from the same definitions as --help.

import type { Command, Option } from "commander";
import { print } from "./output.ts";

interface CommandSpec {
  readonly name: string;
  readonly description: string;
  readonly options: readonly Option[];
  /** Values that its argument may have. */
  readonly choices: readonly string[];
}

const SHELLS: Readonly<Record<Shell, (commands: readonly CommandSpec[]) => string>> = { bash, zsh, fish };

export type Shell = "bash" | "zsh" | "fish";

export function completion(shell: Shell, program: Command): number {
  print(SHELLS[shell](program.commands.map(specOf)));
  return 0;
}

function specOf(command: Command): CommandSpec {
  return {
    name: command.name(),
    description: command.description(),
    options: command.createHelp().visibleOptions(command),
    choices: command.registeredArguments[0]?.argChoices ?? [],
  };
}

const namesOf = ({ short, long }: Option): readonly string[] =>
  [short, long].filter((name) => typeof name === "string");
const takesValue = (option: Option): boolean => option.required || option.optional;
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function bash(commands: readonly CommandSpec[]): string {
  const cases = commands.map(({ name, options, choices }) => {
    const words = [...options.flatMap(namesOf), ...choices].join(" ");
    const values = options.filter(takesValue).flatMap(namesOf).join("|");
    return `    ${name}) words=${quoted(words)} values=${quoted(`|${values}|`)} ;;`;
  });
  const withChoices = new Map(
    commands.flatMap(({ options }) =>
      options.flatMap((option) => (option.argChoices === undefined ? [] : [[option.long, option] as const])),
    ),
  );
  const choices = [...withChoices.values()].map(
    ({ long, argChoices = [] }) =>
      `    ${long}) COMPREPLY=($(compgen -W '${argChoices.join(" ")}' -- "$cur")); return ;;`,
  );
  return `# bash completion of holdfast: source <(holdfast completion bash)
_holdfast() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words= values= i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '${commands.map(({ name }) => name).join(" ")} --help --version' -- "$cur"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ \${COMP_WORDS[i]} == -- ]]; then
      if ((i == COMP_CWORD - 1)); then COMPREPLY=($(compgen -c -- "$cur"))
      else COMPREPLY=($(compgen -f -- "$cur"))
      fi
      return
    fi
  done
  case "$prev" in
${choices.join("\n")}
  esac
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  # A value that cannot be known.
  [[ $prev == -* && $values == *"|$prev|"* ]] && return
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _holdfast holdfast
`;
}

function zsh(commands: readonly CommandSpec[]): string {
  const names = commands.map(({ name, description }) => `    ${quoted(`${name}:${zshText(description)}`)}`);
  const cases = commands.map((command) => {
    const rest = command.name === "run" ? ["'1:key: '", "'*::command:_normal'"] : argumentOf(command);
    const specs = [...command.options.flatMap(zshOption), ...rest];
    return `    ${command.name})\n      _arguments -s \\\n        ${specs.join(" \\\n        ")} ;;`;
  });
  return `#compdef holdfast
# zsh completion of holdfast: source <(holdfast completion zsh)
_holdfast() {
  local -a commands
  commands=(
${names.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join("\n")}
  esac
}
# Loaded from $fpath it is called, sourced it is registered.
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`;
}

function argumentOf({ choices }: CommandSpec): readonly string[] {
  return choices.length === 0 ? ["'1:key: '"] : [quoted(`1:name:(${choices.join(" ")})`)];
}

function zshOption(option: Option): readonly string[] {
  const value = takesValue(option) ? `:${option.name()}:${zshValues(option)}` : "";
  return namesOf(option).map((name) => quoted(`${name}[${zshText(option.description)}]${value}`));
}

function zshValues({ argChoices }: Option): string {
  return argChoices === undefined ? " " : `(${argChoices.join(" ")})`;
}

const zshText = (text: string): string => text.replace(/[:[\]]/g, "\\$&");

function fish(commands: readonly CommandSpec[]): string {
  const lines = commands.flatMap(({ name, description, options, choices }) => {
    const when = quoted(`__fish_seen_subcommand_from ${name}`);
    return [
      `complete -c holdfast -n __fish_use_subcommand -f -a ${name} -d ${quoted(description)}`,
      ...options.map((option) => `complete -c holdfast -n ${when} ${fishOption(option)}`),
      ...(choices.length === 0 ? [] : [`complete -c holdfast -n ${when} -f -a ${quoted(choices.join(" "))}`]),
    ];
  });
  return `# fish completion of holdfast: holdfast completion fish | source\n${lines.join("\n")}\n`;
}

function fishOption(option: Option): string {
  const { short, long, argChoices } = option;
  return [
    ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
    ...(long === undefined || long === null ? [] : [`-l ${long.slice(2)}`]),
    ...(takesValue(option) ? ["-x"] : ["-f"]),
    ...(argChoices === undefined ? [] : [`-a ${quoted(argChoices.join(" "))}`]),
    `-d ${quoted(option.description)}`,
  ].join(" ");
}
