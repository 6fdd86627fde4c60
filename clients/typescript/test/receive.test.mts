import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Discard, nodeReceiver, Snooze, type Push } from "duetime";
import { duetime, listen, secret } from "./api.mjs";

type Order = { order: string };

const pushes: Push<Order>[] = [];
const server = createServer(nodeReceiver<Order>(["whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh", secret], (push) => {
  pushes.push(push);
  const tries = triesOf(push.id);
  if (push.payload.order === "refused") throw new Discard("no such order");
  if (push.payload.order === "early" && tries === 1) throw new Snooze("0.5s");
  if (push.payload.order === "broken" && tries === 1) throw new RangeError("out of stock");
}));
const triesOf = (id: string) => pushes.filter((push) => push.id === id).length;

before(() => new Promise<void>((resolve) => server.listen(Number(listen.port), listen.hostname, resolve)));
after(() => { server.close(); server.closeAllConnections(); });

/** Schedules a task that is due now, and waits until it has ended. */
async function run(order: string) {
  const { task } = await duetime.schedule({
    kind: "client.typescript", queue: "push", owner: `ann ü ${order}`, subject: "50 %", payload: { order }, dueIn: "0s",
  });
  for (;;) {
    const stands = await duetime.get(task.taskId);
    if (stands.state !== "STATE_PENDING") return stands;
    await duetime.awaitDue(stands.owner, { timeout: "1s" });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a handler that returns ends the task", async () => {
  const task = await run("plain");
  assert.equal(task.state, "STATE_DONE");
  const [push, ...others] = pushes.filter(({ id }) => id === task.taskId);
  assert.deepEqual([push?.kind, push?.owner, push?.subject, push?.payload], [task.kind, task.owner, "50 %", { order: "plain" }]);
  assert.deepEqual([new Date(push!.dueAt), others], [new Date(task.dueAt), []]);
  assert.deepEqual(await duetime.awaitDue(task.owner, { kind: task.kind }), { left: 0, failed: 0, paused: 0, limited: 0 });
});

test("a handler that throws has the task tried again", async () => {
  const task = await run("broken");
  assert.deepEqual([task.state, triesOf(task.taskId)], ["STATE_DONE", 2]);
  assert.match(task.lastError!, /500 .*RangeError: out of stock/);
});

test("a handler discards and snoozes", async () => {
  const dead = await run("refused");
  assert.deepEqual([dead.state, triesOf(dead.taskId)], ["STATE_DEAD", 1]);
  assert.match(dead.lastError!, /no such order/);
  const later = await run("early");
  assert.deepEqual([later.state, later.lastError, triesOf(later.taskId)], ["STATE_DONE", undefined, 2]);
});
