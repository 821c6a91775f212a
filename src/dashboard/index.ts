// `holdfast/dashboard`: a page that shows all holders and waiters, as a fetch handler.

export { dashboard, type Dashboard, type DashboardOptions } from "./handler.ts";
export { nodeHandler, type NodeHandler } from "./node-handler.ts";
