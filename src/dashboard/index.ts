// `holdfast/dashboard`: one page that shows what is held and waited for, as a fetch handler.

export { dashboard, type Dashboard, type DashboardOptions } from "./handler.ts";
export { nodeHandler, type NodeHandler } from "./node-handler.ts";
