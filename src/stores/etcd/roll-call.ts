// Which of the named endpoints are not well at the moment. Each is called on a connection of its own, for a second at most.

import type { System } from "../../core/system.ts";
import type { Patience } from "./port.ts";

const CALL_MS = 1_000;

/** `call` rejects where a member does not answer or knows no leader. */
export async function silent(
  endpoints: readonly string[],
  system: System,
  call: (endpoint: string, io: Patience) => Promise<void>,
): Promise<readonly string[]> {
  const over = system.abortController?.() ?? new AbortController();
  const cancel = system.after(CALL_MS, () => over.abort());
  const words = await Promise.all(
    endpoints.map((endpoint) =>
      call(endpoint, over).then(
        () => [],
        ({ message }: Error) => [message.startsWith(endpoint) ? message : `${endpoint} does not answer`],
      ),
    ),
  );
  cancel();
  return words.flat();
}
