/** A client of the API of EventRelay. Its types (api.gen.ts) are made from the OpenAPI document. */
export * from "./client.js";
export * from "./verify.js";
export type { components, operations, paths } from "./api.gen.js";
