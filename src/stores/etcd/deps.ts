// What the parts of one opened store share. Types only.

import type { System } from "../../core/system.ts";
import type { Claims } from "./claims.ts";
import type { Leases } from "./leases.ts";
import type { Names } from "./names.ts";
import type { EtcdPort } from "./port.ts";
import type { Watches } from "./watches.ts";

export type Order = "fifo" | "exclusive";

export interface Deps {
  readonly port: EtcdPort;
  readonly system: System;
  readonly names: Names;
  readonly leases: Leases;
  readonly claims: Claims;
  readonly watches: Watches;
  readonly order: Order;
  /** This opened store, as others know it. */
  readonly proc: string;
}
