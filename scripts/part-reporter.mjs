// A reporter of vitest that speaks in parts: one line when the last file of a part has ended, with
// everything that its failed tests said. It writes its counts into the file that HOLDFAST_TEST_COUNTS
// names, for `npm test`. A skipped test counts as failed, and so do a file that cannot be loaded and an
// error outside of all tests. Cases that the conformance suite repeated after a stall are listed at the end.
import { writeFileSync } from "node:fs";
import { showPart } from "./parts.mjs";

/** So many are shown. Those that scripts/longest-first.mjs does not name should be added there. */
const LONGEST_FILES = 20;
/** See runCase in src/testing/suite.ts. */
const REPEATED = "repeated after a stall";

export default class PartReporter {
  #parts = new Map();
  #logs = new Map();
  #startedMs = new Map();
  #repeats = [];
  #files = [];

  onTestRunStart(specifications) {
    for (const { project } of specifications) this.#part(project.name).files += 1;
  }

  onUserConsoleLog({ taskId = "", content }) {
    this.#logs.set(taskId, (this.#logs.get(taskId) ?? "") + content);
    this.#repeats.push(...content.split("\n").filter((line) => line.startsWith(REPEATED)));
  }

  onTestModuleQueued(file) {
    this.#startedMs.set(file.id, performance.now());
  }

  onTestModuleEnd(file) {
    const part = this.#part(file.project.name);
    const seconds = (performance.now() - (this.#startedMs.get(file.id) ?? performance.now())) / 1_000;
    this.#files.push({ name: file.relativeModuleId, seconds });
    part.seconds += seconds;
    this.#count(file, part);
    part.files -= 1;
    if (part.files === 0) showPart(part);
  }

  onTestRunEnd(_files, errors) {
    const parts = [...this.#parts.values()];
    if (errors.length > 0) {
      const outside = { name: "outside", seconds: 0, passed: 0, failed: errors.length, output: "" };
      outside.output = errors.map(textOf).join("\n");
      parts.push(outside);
      showPart(outside);
    }
    if (this.#repeats.length > 0) console.log(`\n${this.#repeats.length} cases ran again after a stall`);
    for (const line of this.#repeats) console.log(`  ${line}`);
    console.log("\nlongest files");
    const longest = this.#files.toSorted((one, two) => two.seconds - one.seconds).slice(0, LONGEST_FILES);
    for (const { name, seconds } of longest) console.log(`${seconds.toFixed(1).padStart(6)} s  ${name}`);
    const counts = parts.map(({ name, seconds, passed, failed }) => ({ name, seconds, passed, failed }));
    const path = process.env["HOLDFAST_TEST_COUNTS"];
    if (path !== undefined) writeFileSync(path, JSON.stringify(counts));
  }

  #part(name) {
    const part = this.#parts.get(name) ?? { name, files: 0, seconds: 0, passed: 0, failed: 0, output: "" };
    this.#parts.set(name, part);
    return part;
  }

  #count(file, part) {
    const tests = [...file.children.allTests()];
    const problems = file.errors().map((error) => `${file.relativeModuleId}\n${textOf(error)}`);
    for (const test of tests) {
      const { state, errors = [] } = test.result();
      if (state === "passed") part.passed += 1;
      else problems.push(`${file.relativeModuleId} > ${test.fullName}\n${whyNot(state, errors)}`);
    }
    if (problems.length === 0 && tests.length === 0) problems.push(`${file.relativeModuleId}: no test ran`);
    part.failed += problems.length;
    if (problems.length === 0) return;
    part.output += `${problems.join("\n")}\n${this.#said(file, tests)}`;
  }

  /** What the file and its tests wrote to the console. */
  #said(file, tests) {
    return [file, ...tests].map(({ id }) => this.#logs.get(id) ?? "").join("");
  }
}

function whyNot(state, errors) {
  return state === "failed" ? errors.map(textOf).join("\n") : `${state}: run it or delete it`;
}

function textOf({ message = "", stack = "", diff = "" }) {
  const text = stack.includes(message) ? stack : `${message}\n${stack}`;
  return diff === "" || diff === undefined ? text : `${text}\n${diff}`;
}
