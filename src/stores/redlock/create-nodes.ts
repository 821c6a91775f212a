// Makes the nodes of the store from clients and URLs.

import type { StoreEnv } from "../../core/store.ts";
import { connectToNode, type Driver, loadDriver, portOf } from "../redis/client/connect.ts";
import { connectNodeRedis, type NodeRedisClient, nodeRedisOptions } from "../redis/client/node-redis.ts";
import { SingleNode } from "../redis/topology/single-node.ts";
import { rejectFew } from "./health.ts";
import { type Connect, Node } from "./node.ts";

/** By the module that made it. */
const templates = new WeakMap<object, NodeRedisClient>();

export function createNodes(
  given: readonly (string | object)[],
  driver: Driver | undefined,
  env: StoreEnv,
): Node[] {
  rejectFew(given.length, env.allow);
  return given.map((one, at) => new Node(nameOf(one, at), connectorOf(one, driver, env), env.system));
}

function connectorOf(node: string | object, driver: Driver | undefined, { system }: StoreEnv): Connect {
  if (typeof node !== "string") return () => portOf(node, system);
  return async () => {
    const loaded = await loadDriver(driver);
    if (loaded.driver !== "redis") return connectToNode(node, { driver }, system);
    const template = templateOf(loaded.module);
    const options = { url: node, ...nodeRedisOptions(null, {}) };
    return new SingleNode(
      (cancel) => connectNodeRedis(template.duplicate(options), cancel),
      "",
      system,
    ).open();
  };
}

/**
 * One for all nodes: creating a client takes 25 ms of processor time, because it creates a class.
 */
function templateOf(module: { createClient(options: object): NodeRedisClient }): NodeRedisClient {
  const template = templates.get(module) ?? module.createClient({});
  templates.set(module, template);
  return template;
}

/** Never the whole URL: it may hold a password. */
function nameOf(node: string | object, at: number): string {
  const address = typeof node === "string" ? ` (${new URL(node).host})` : "";
  return `node ${at + 1}${address}`;
}
