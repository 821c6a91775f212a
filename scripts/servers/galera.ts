// A Galera cluster of one MariaDB: enough to see what the server refuses or does otherwise in a cluster.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { mariadbProgram, type MariadbOptions, startMariadb } from "./mariadb.ts";
import { findProgram, type Program } from "./packages.ts";
import { freePorts } from "./ports.ts";
import type { RunningServer } from "./process.ts";

export const galeraProgram: Program = {
  ...mariadbProgram,
  packages: [...mariadbProgram.packages, "galera-4"],
  unpacked: true,
};

export async function startGalera(options: MariadbOptions = {}): Promise<RunningServer> {
  const program = await findProgram(galeraProgram);
  if (options.dataFolder !== undefined) allowBootstrap(join(options.dataFolder, "data", "grastate.dat"));
  const [listen, transfer] = await freePorts(2);
  const provider = `gmcast.listen_addr=tcp://127.0.0.1:${listen};ist.recv_addr=127.0.0.1:${transfer}`;
  const args = [
    ...["--wsrep-on=ON", "--wsrep-cluster-address=gcomm://", "--wsrep-node-address=127.0.0.1"],
    `--wsrep-provider=${join(program.tree as string, "usr/lib/galera/libgalera_smm.so")}`,
    ...[`--wsrep-provider-options=${provider}`, "--innodb-autoinc-lock-mode=2"],
    ...["--log-slave-updates=1", ...(options.args ?? [])],
  ];
  return startMariadb({ ...options, own: true, program, args });
}

/** A member that was killed begins no new cluster: another one could know more. Here there is no other. */
function allowBootstrap(state: string): void {
  if (!existsSync(state)) return;
  writeFileSync(state, readFileSync(state, "utf8").replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"));
}
