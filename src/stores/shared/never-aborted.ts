// The signal of calls that cannot be aborted.

import { setMaxListeners } from "node:events";

/** Without a limit of listeners, because many concurrent calls share it. */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;
setMaxListeners(0, NEVER_ABORTED);
