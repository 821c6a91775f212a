// What COMMAND gets from the caller of `holdfast run`: every variable and every descriptor, as without it.

import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Sandbox } from "./fixture.ts";

let box: Sandbox;
beforeEach(() => void (box = new Sandbox()));
afterEach(() => box.close());

describe("the environment of COMMAND", () => {
  it("keeps names that a shell would drop", async () => {
    const odd = { "my.dotted.var": "one two", "BASH_FUNC_f%%": "() { :; }", "a-b": "$x" };
    const { code, stdout, stderr } = await box.run(["run", "k", "--", "env"], odd);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const [name, value] of Object.entries(odd)) expect(stdout).toContain(`${name}=${value}\n`);
  });
});

describe("the descriptors of COMMAND", () => {
  const wrapped = (line: string): string => `"$NODE" "$MAIN" run k -- ${line}`;
  const shell = (line: string): ReturnType<Sandbox["spawn"]> =>
    box.spawn("sh", ["-c", line], { HOLDFAST_STORE: box.store, NODE: process.execPath, MAIN: box.main });

  it("are those of the caller, 3 and 4 included", async () => {
    const read = "sh -c 'cat <&3; cat <&7; echo to four >&4; echo to nine >&9'";
    const { code, stderr } = await shell(
      `echo three >three; echo seven >seven; ${wrapped(read)} 3<three 7<seven 4>four 9>nine >out`,
    ).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect([box.read("out"), box.read("four"), box.read("nine")]).toEqual([
      "three\nseven\n",
      "to four\n",
      "to nine\n",
    ]);
  });

  it("are a job server's pipe where make has given one", async () => {
    // Both ends of one pipe, as make passes them in 3 and 4.
    const pipe = "mkfifo fifo; exec 3<>fifo 4>fifo; rm fifo; echo token >&4;";
    const { stdout } = await shell(`${pipe} ${wrapped("sh -c 'read -r t <&3; echo got $t'")}`).ended;
    expect(stdout).toBe("got token\n");
  });

  it("are closed where the caller has none", async () => {
    const look = "sh -c 'for fd in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true'";
    const { code, stdout } = await shell(`exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ${wrapped(look)}`).ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(existsSync(box.file("store"))).toBe(true);
  });
});
