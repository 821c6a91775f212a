// `holdfast/nestjs`: a `Locks` as a module of NestJS. It imports no package: a dynamic module, a provider and
// a lifecycle hook of NestJS are plain objects and methods.

export { currentLease, type LockKey, type LockMethod, Once, WithLock } from "./decorators.ts";
export { HoldfastHealth, type HealthResult } from "./health.ts";
export {
  type HoldfastAsyncOptions,
  type HoldfastDynamicModule,
  HoldfastModule,
  type HoldfastModuleOptions,
  LOCKS,
} from "./module.ts";
