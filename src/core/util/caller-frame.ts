// Puts the frame of the caller into the stack of an error. Most errors are made in a timer or when a reply
// arrives, where nothing is known of the caller. When the public method rejects, V8 knows who awaits its
// promise: a stack that is captured there has that frame. A call that succeeds captures nothing.

import { LockError } from "../errors.ts";

/**
 * Errors that already have the frame of their caller. An error may reach several callers or pass nested
 * calls.
 */
const shown = new WeakSet<LockError>();

/** Makes rejections of these methods show who called them. */
export function showCallers<T extends object>(prototype: T, ...names: readonly (keyof T & string)[]): void {
  for (const name of names) {
    const method = prototype[name] as (...args: unknown[]) => Promise<unknown>;
    const called = function (this: T, ...args: unknown[]): Promise<unknown> {
      return settle(method.apply(this, args));
    };
    Object.defineProperty(called, "name", { value: name });
    Object.defineProperty(prototype, name, { value: called, writable: true, configurable: true });
  }
}

/** Must return the promise that the caller awaits: V8 finds the caller's frame through it. */
async function settle<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LockError) addCaller(error);
    throw error;
  }
}

/** Adds the frames of whoever calls this, or awaits it, to the stack of the error. */
function addCaller(error: LockError): void {
  if (shown.has(error) || typeof error.stack !== "string") return;
  shown.add(error);
  const here: { stack?: string } = {};
  Error.captureStackTrace(here, settle);
  const frames = here.stack?.split("\n").slice(1) ?? [];
  if (frames.length > 0) error.stack = `${error.stack}\n${frames.join("\n")}`;
}
