// Calls the API by the messages that protoc-gen-es makes of proto/duetime/v1, as docs/API.md shows it.
import assert from "node:assert/strict";
import { fromJson, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { TaskService } from "./generated/duetime/v1/task_pb.js";

const tasks = createClient(TaskService, createGrpcTransport({ baseUrl: process.env.DUETIME_API! }));
const due = { case: "dueIn", value: { seconds: 600n } } as const;

const made = await tasks.schedule({
  task: { kind: "order.expire", owner: "protobuf-es", payload: fromJson(ValueSchema, { order: 42 }), due },
});
assert.deepEqual(toJson(ValueSchema, made.task!.payload!), { order: 42 });

// A plain object has none of the fields of a Value: its fields never leave this process.
const lost = await tasks.schedule({ task: { kind: "order.expire", owner: "protobuf-es", payload: { order: 42 } as object, due } }).then(
  () => assert.fail("an empty payload was stored"),
  (err: unknown) => ConnectError.from(err),
);
assert.equal(lost.code, Code.InvalidArgument);
assert.match(lost.message, /task\.payload has a value that is not set/);
console.log("protoc-gen-es: 2 calls");
