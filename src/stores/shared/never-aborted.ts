// The signal of a call that nobody gives up.

import { setMaxListeners } from "node:events";

/** Any number of calls may listen to it at the same time. */
export const NEVER_ABORTED: AbortSignal = new AbortController().signal;
setMaxListeners(0, NEVER_ABORTED);
