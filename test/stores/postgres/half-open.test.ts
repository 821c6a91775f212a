import { afterAll, beforeAll } from "vitest";
import { testHalfOpen } from "../../support/half-open.ts";
import { PostgresWorld } from "./fixture.ts";

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
});

afterAll(() => world?.stop());

testHalfOpen(["table", "advisory"], () => ({
  port: world.server.port,
  url: (port) => world.url.replace(String(world.server.port), String(port)),
}));
