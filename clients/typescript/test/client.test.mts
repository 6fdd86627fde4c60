import assert from "node:assert/strict";
import { test } from "node:test";
import { Duetime, DuetimeError, newId, type Reason } from "duetime";
import { duetime, faulty, token, url } from "./api.mjs";

const order = { kind: "order.expire", owner: "typescript", payload: { order: 42 }, dueIn: "3600s" } as const;

const refused = (reason: Reason, more: Partial<DuetimeError> = {}) =>
  ({ name: "DuetimeError", reason, commitUnknown: false, ...more });

test("a task is scheduled, read, moved and cancelled", async () => {
  const { task, outcome } = await duetime.schedule({ ...order, subject: "order 42", labels: { shop: "7" } });
  assert.equal(outcome, "OUTCOME_MADE");
  assert.deepEqual([task.state, task.version, task.payload.order], ["STATE_PENDING", "1", 42]);
  assert.deepEqual((await duetime.get(task.taskId)).labels, { shop: "7" });
  const dueAt = new Date(Date.now() + 7_200_000);
  const moved = await duetime.reschedule(task.taskId, { dueAt, version: task.version });
  assert.equal(new Date(moved.dueAt).getTime(), dueAt.getTime());
  const sooner = await duetime.shift(task.taskId, "-1800s", { dueWithin: "7300s" });
  assert.equal(new Date(sooner.dueAt).getTime(), dueAt.getTime() - 1_800_000);
  const stale = refused("STALE_VERSION", { code: "aborted", version: "3" });
  await assert.rejects(duetime.cancel(task.taskId, { version: "1" }), stale);
  assert.equal((await duetime.cancel(task.taskId)).state, "STATE_CANCELLED");
  await assert.rejects(duetime.cancel(task.taskId), refused("ALREADY_CANCELLED"));
  await assert.rejects(duetime.shift(task.taskId, "1s"), refused("ALREADY_CANCELLED"));
  await assert.rejects(duetime.get(newId()), refused("NO_TASK", { code: "not_found" }));
});

test("many tasks are scheduled, or none", async () => {
  const many = Array.from({ length: 20 }, (_, i) => ({ ...order, payload: { order: i } }));
  const made = await duetime.scheduleMany(many);
  assert.deepEqual(made.map(({ task }) => task.payload?.order), many.map(({ payload }) => payload.order));
  const nobodys = { ...order, owner: "" };
  await assert.rejects(duetime.scheduleMany([order, nobodys]), { code: "invalid_argument", field: "tasks[1].owner" });
});

test("a key finds the first task", async () => {
  const keyed = { ...order, idempotencyKey: newId() };
  const [first, second] = [await duetime.schedule(keyed), await duetime.schedule(keyed)];
  assert.deepEqual([second.task.taskId, second.outcome], [first.task.taskId, "OUTCOME_KEPT"]);
  const taken = refused("IDEMPOTENCY_KEY_TAKEN", { field: "task.idempotency_key" });
  await assert.rejects(duetime.schedule({ ...keyed, payload: { order: 43 } }), taken);
});

test("payloads come back as they were sent", async () => {
  for (const payload of [null, "ü<&>", [1, { deep: [true, null] }], Array.from({ length: 300 }, (_, i) => i)]) {
    const { task } = await duetime.schedule({ ...order, payload });
    assert.deepEqual((await duetime.get(task.taskId)).payload, payload);
  }
});

test("an error names the field and its form", async () => {
  // @ts-expect-error: seconds with an s
  const wrong = duetime.schedule({ ...order, dueIn: "10m" });
  await assert.rejects(wrong, (err: unknown) => {
    assert(err instanceof DuetimeError && err.field === "task.due_in", String(err));
    assert.match(err.form!, /did you mean "600s"\?$/);
    return true;
  });
  // @ts-expect-error: one of both
  await assert.rejects(duetime.reschedule(newId(), { dueIn: "1s", dueAt: new Date() }), { field: "due" });
  // @ts-expect-error: a task has an owner
  await assert.rejects(duetime.schedule({ kind: "order.expire", dueIn: "1s" }), { field: "task.owner" });
  // @ts-expect-error: there is no such reason
  refused("ALREADY_GONE");
  const stranger = new Duetime({ url, token: "nobody-0123456789" });
  await assert.rejects(stranger.get(newId()), { code: "unauthenticated", commitUnknown: false });
});

test("a call whose answer was lost is repeated, and has its effect once", async () => {
  const owner = newId();
  let taskId = "";
  const schedules = await faulty(["lost", "lost"], async (client) => {
    const { task, outcome } = await client.schedule({ ...order, owner });
    assert.equal(outcome, "OUTCOME_MADE");
    taskId = task.taskId;
  });
  const listed = await duetime.call("/duetime.v1.TaskService/List", { owner });
  assert.deepEqual([schedules, listed.tasks?.map((task) => task.taskId)], [3, [taskId]]);
  const cancels = await faulty(["lost"], async (client) => {
    assert.equal((await client.cancel(taskId)).state, "STATE_CANCELLED");
  });
  assert.equal(cancels, 3); // the third one reads the task
});

test("a task of a key is made once, though it has ended before the call is repeated", async () => {
  const keyed = { ...order, owner: newId(), key: "order-42" };
  const list = async () => (await duetime.call("/duetime.v1.TaskService/List", { owner: keyed.owner })).tasks ?? [];
  const cancelIt = async () => Promise.all((await list()).map((one) => duetime.cancel(one.taskId)));
  const requests = await faulty(["lost", cancelIt], async (client) => {
    const { task, outcome } = await client.schedule(keyed);
    assert.deepEqual([task.state, outcome], ["STATE_CANCELLED", "OUTCOME_MADE"]);
  });
  assert.deepEqual([requests, (await list()).length], [2, 1]);
});

test("a call that may not be repeated says that it may have been made", async () => {
  const { task } = await duetime.schedule({ ...order, owner: newId(), key: "order-42" });
  const calls = [
    (client: Duetime) => client.shift(task.taskId, "60s"),
    (client: Duetime) => client.reschedule(task.taskId, { dueIn: "60s" }),
    (client: Duetime) => client.reschedule(task.taskId, { dueIn: "60s", version: "3" }),
    (client: Duetime) => client.schedule({ ...order, owner: task.owner, key: "order-42", keyMode: "KEY_MODE_MOVE" }),
  ];
  for (const [i, call] of calls.entries()) {
    const lost = { code: "unavailable", reason: undefined, commitUnknown: true } as const;
    assert.equal(await faulty(["lost"], (client) => assert.rejects(call(client), lost)), 1);
    assert.equal((await duetime.get(task.taskId)).version, String(i + 2));
  }
});
