export * from "./client.js";
export { DuetimeError, type Code, type Reason } from "./error.js";
export * from "./receive.js";
export type { components, paths } from "./openapi.js";
