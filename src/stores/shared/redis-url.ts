/** `valkey` and `valkeys` as `redis` and `rediss`, which is all that the clients know. */
export function withRedisScheme(url: string): string {
  return url.replace(/^valkey(?=s?[:+])/, "redis");
}
