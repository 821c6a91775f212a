// `holdfast/fence`: guards that make the resource reject a stale holder (P4). A lock cannot stop a process
// that pauses between its check and its write, but the resource can compare fences.

export type { Fence } from "./fence.ts";
export { FenceGate } from "./gate.ts";
export {
  type Claim,
  type ExpressRequest,
  type ExpressResponse,
  type FenceHandler,
  fenceHeader,
  FENCING_KEY,
  FENCING_TOKEN,
  type RequireFence,
  requireFence,
  type RequireFenceOptions,
} from "./http.ts";
export { etcdGateway, type EtcdGatewayOptions } from "./etcd-gateway.ts";
export type { EtcdClient, EtcdTxn, EtcdTxnAnswer } from "./etcd-key.ts";
export { type GuardKey, guardKey, type GuardKeyOptions } from "./key.ts";
export type { RedisClient } from "./redis-key.ts";
export {
  type Dialect,
  type GuardRow,
  guardRow,
  type GuardRowOptions,
  type Statement,
  type Transaction,
} from "./sql-row.ts";
