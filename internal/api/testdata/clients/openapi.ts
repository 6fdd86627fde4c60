// Calls the API by the types that openapi-typescript makes of /openapi.yaml. What is required there is required by these types.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/openapi.js";

type Reason = components["schemas"]["Reason"];

const api = createClient<paths>({ baseUrl: process.env.DUETIME_API! });

const made = await api.POST("/duetime.v1.TaskService/Schedule", {
  body: { task: { kind: "order.expire", owner: "typescript", payload: { order: 42 }, dueIn: "600s" } },
});
assert(made.data, JSON.stringify(made.error));
const taskId: string = made.data.task.taskId;
assert.equal(made.data.task.state, "STATE_PENDING");
assert.deepEqual(made.data.task.payload, { order: 42 });

// @ts-expect-error: a task has an owner
const refused = await api.POST("/duetime.v1.TaskService/Schedule", { body: { task: { kind: "order.expire", dueIn: "600s" } } });
assert.equal(refused.error?.details?.[0]?.debug?.fieldViolations?.[0]?.field, "task.owner");

const misspelt = await api.POST("/duetime.v1.TaskService/Reschedule", { body: { taskId, dueIn: "10m" } });
const violation = misspelt.error?.details?.[0]?.debug?.fieldViolations?.[0];
assert.equal(violation?.field, "due_in");
assert.match(violation.description!, /did you mean "600s"\?$/);

const stale = await api.POST("/duetime.v1.TaskService/Cancel", { body: { taskId, version: "9" } });
assert.equal(stale.error?.code, "aborted");
assert.equal(stale.error.details?.[0]?.debug?.reason, "STALE_VERSION" satisfies Reason);
// @ts-expect-error: there is no such reason
"STALE" satisfies Reason;

const listed = await api.POST("/duetime.v1.TaskService/List", { body: { owner: "typescript", state: "STATE_PENDING" } });
assert.deepEqual(listed.data?.tasks?.map((task) => task.taskId), [taskId]);
console.log("openapi-typescript: 5 calls");
