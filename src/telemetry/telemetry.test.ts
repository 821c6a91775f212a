// Metrics and spans with the real packages: prom-client, and the SDK of OpenTelemetry with an exporter in memory.

import { context, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import promClient from "prom-client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocks, InvalidArgumentError, type Locks } from "../index.ts";
import { meterLocks, traceLocks } from "../otel/index.ts";
import { collectMetrics } from "../prometheus/index.ts";

let locks: Locks;
let other: Locks;
let names = 0;

beforeEach(() => {
  names += 1;
  locks = createLocks(`memory:telemetry-${names}`, { label: "here" });
  other = createLocks(`memory:telemetry-${names}`, { label: "there" });
});

afterEach(() => Promise.all([locks, other].map((one) => one.close({ drain: 0 }))));

const groupOf = (key: string): string => key.split(":")[0] as string;

/** One lease, one timeout, one lost lease and one call that waits. */
async function exercise(): Promise<void> {
  await locks.using("order:1", async () => {});
  const held = await other.acquire("order:2");
  await expect(locks.acquire("order:2", { wait: 1 })).rejects.toThrow();
  await held.release();
  const lease = await locks.acquire("report:1");
  await other.revoke("report:1", { reason: "test", force: true });
  await expect.poll(() => lease.held).toBe(false);
}

describe("collectMetrics", () => {
  it("counts and measures by store and group, and never by key", async () => {
    const register = new promClient.Registry();
    const stop = collectMetrics(locks, { client: promClient, register, store: "memory", group: groupOf });
    await exercise();
    const text = await register.metrics();
    expect(text).toContain('holdfast_wait_seconds_count{store="memory",group="order",outcome="acquired"} 1');
    expect(text).toContain('holdfast_wait_seconds_count{store="memory",group="order",outcome="timeout"} 1');
    expect(text).toContain('holdfast_timeouts_total{store="memory",group="order"} 1');
    expect(text).toContain('holdfast_hold_seconds_count{store="memory",group="report"} 1');
    expect(text).toContain('holdfast_lost_total{store="memory",group="report",reason="revoked"} 1');
    expect(text).toContain('holdfast_held{store="memory",group="order"} 0');
    expect(text).toContain('holdfast_waiting{store="memory",group="order"} 0');
    expect(text).not.toContain("order:1");
    stop();
    await locks.using("order:3", async () => {});
    expect(await register.metrics()).toBe(text);
  });

  it("shows a call that waits, until it has ended", async () => {
    const register = new promClient.Registry();
    collectMetrics(locks, { client: promClient, register });
    const held = await other.acquire("a");
    const waiting = locks.acquire("a");
    const shows = async (line: string): Promise<boolean> => (await register.metrics()).includes(line);
    await expect.poll(() => shows('holdfast_waiting{store="default",group="all"} 1')).toBe(true);
    await held.release();
    const lease = await waiting;
    expect(await shows('holdfast_waiting{store="default",group="all"} 0')).toBe(true);
    expect(await shows('holdfast_held{store="default",group="all"} 1')).toBe(true);
    await lease.release();
  });

  it("lets two Locks share a registry, and tells at most 100 groups apart", async () => {
    const register = new promClient.Registry();
    collectMetrics(locks, { client: promClient, register, store: "a", group: (key) => key });
    collectMetrics(other, { client: promClient, register, store: "b" });
    for (let i = 0; i < 120; i += 1) await locks.using(`k${i}`, async () => {});
    await other.using("k", async () => {});
    const text = await register.metrics();
    expect(text).toContain('holdfast_hold_seconds_count{store="a",group="other"} 20');
    expect(text).toContain('holdfast_hold_seconds_count{store="b",group="all"} 1');
  });

  it("rejects a group that is no function", () => {
    const wrong = { client: promClient, register: new promClient.Registry(), group: 5 } as unknown;
    expect(() => collectMetrics(locks, wrong as Parameters<typeof collectMetrics>[1])).toThrow(
      InvalidArgumentError,
    );
  });
});

describe("meterLocks", () => {
  it("records the same with OpenTelemetry", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const provider = new MeterProvider({ readers: [reader] });
    meterLocks(locks, { meter: provider.getMeter("holdfast"), store: "memory", group: groupOf });
    await exercise();
    await provider.forceFlush();
    const metrics = exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((one) => one.metrics));
    const points = Object.fromEntries(
      metrics.map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints as { attributes: object }[]]),
    );
    expect(points["holdfast.wait"]).toContainEqual(
      expect.objectContaining({ attributes: { store: "memory", group: "order", outcome: "acquired" } }),
    );
    expect(points["holdfast.timeouts"]).toMatchObject([{ value: 1 }]);
    expect(points["holdfast.lost"]).toMatchObject([{ value: 1, attributes: { reason: "revoked" } }]);
    expect(points["holdfast.held"]).toMatchObject([{ value: 0 }, { value: 0 }]);
    await provider.shutdown();
  });
});

describe("traceLocks", () => {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = provider.getTracer("holdfast");
  let stop: () => void = () => {};

  beforeEach(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    stop = traceLocks({ tracer });
  });

  afterEach(() => {
    stop();
    exporter.reset();
    context.disable();
  });

  const spanNamed = (name: string): ReadableSpan =>
    exporter.getFinishedSpans().find((span) => span.name === name) as ReadableSpan;

  it("makes spans for the wait, the hold and the release, in the trace of the caller", async () => {
    const parent = provider.getTracer("app").startSpan("request");
    await context.with(trace.setSpan(context.active(), parent), () =>
      locks.using("order:1", async (lease) => expect(lease.held).toBe(true)),
    );
    parent.end();
    const spans = ["holdfast acquire", "holdfast hold", "holdfast release"].map(spanNamed);
    const { traceId, spanId } = parent.spanContext();
    expect(spans.map((span) => span.spanContext().traceId)).toEqual([traceId, traceId, traceId]);
    expect(spans.map((span) => span.parentSpanContext?.spanId)).toEqual([spanId, spanId, spanId]);
    expect(spans[0]?.attributes).toMatchObject({ "holdfast.outcome": "acquired", "holdfast.label": "here" });
    expect(JSON.stringify(spans.map(({ attributes }) => attributes))).not.toContain("order:1");
  });

  it("marks a timeout and a lost lease as errors", async () => {
    await exercise();
    const failed = exporter.getFinishedSpans().filter(({ status }) => status.code === SpanStatusCode.ERROR);
    expect(failed.map(({ name }) => name)).toEqual(["holdfast acquire", "holdfast hold"]);
    expect(failed[0]?.attributes).toMatchObject({ "holdfast.outcome": "ERR_LOCK_TIMEOUT" });
  });

  it("ends with the function that it returned", async () => {
    stop();
    await locks.using("a", async () => {});
    expect(exporter.getFinishedSpans()).toEqual([]);
  });
});
