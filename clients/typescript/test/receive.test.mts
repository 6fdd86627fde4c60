import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Discard, fetchReceiver, nodeReceiver, SignatureError, Snooze, verify, type Push } from "duetime";
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
  assert.deepEqual([new Date(push!.dueAt), others], [new Date(task.dueAt!), []]);
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

// The example that Standard Webhooks publishes.
const published = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = '{"test": 2432232314}';
const sent = new Date(1_614_265_330_000);
const headers = {
  "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330",
  "Webhook-Signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  "Ce-Type": "order.expire", "Ce-Owner": "customer%207", "Ce-Time": "2026-11-27T10:10:00.5Z",
};

test("a genuine request is read", async () => {
  const push = {
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek", kind: "order.expire", owner: "customer 7", subject: undefined,
    dueAt: "2026-11-27T10:10:00.5Z", payload: { test: 2432232314 },
  };
  assert.deepEqual(await verify(headers, body, published, sent), push);
  assert.deepEqual(await verify(new Headers(headers), Buffer.from(body), `${secret}\n${published}`, new Date(+sent + 299_000)), push);
});

test("all else is refused", async () => {
  const refused = async (change: Record<string, string>, text = body, by = published, at = sent) =>
    assert.rejects(verify({ ...headers, ...change }, text, by, at), SignatureError, JSON.stringify([change, text, at]));
  await refused({}, `${body} `);
  await refused({}, body, "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh");
  await refused({}, body, published, new Date(+sent + 301_000));
  await refused({}, body, published, new Date(+sent - 301_000));
  for (const name of Object.keys(headers)) await refused({ [name]: "" });
  for (const id of ["7", "msg_p5jXN8AQM9LWM0D4loKWxJeK"]) await refused({ "Webhook-Id": id });
  for (const time of ["now", "1614265331", "1.614265330e9", "9".repeat(400)]) await refused({ "Webhook-Timestamp": time });
  const most = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ";
  for (const text of ["v1,ü", "v1,", `${most}1OE=`, `v2,${most}1OE=`, `v1,${most}`]) await refused({ "Webhook-Signature": text });
  await refused({ "Ce-Owner": "%zz" });
});

test("a secret of another form is a mistake", async () => {
  const missing = process.env["DUETIME_NO_SUCH_SECRET"]!;
  for (const secrets of [missing, [], `${published} whsec_?`, [published, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "whsec_"]) {
    const mistake = { name: "TypeError", message: /^secret [12] must be whsec_ and base64$/ };
    await assert.rejects(verify(headers, body, secrets, sent), mistake, String(secrets));
    for (const receiver of [nodeReceiver, fetchReceiver]) assert.throws(() => receiver(secrets, () => {}), mistake);
  }
});

test("a body that is parsed already is a mistake", async (t) => {
  const log = t.mock.method(console, "error", () => {});
  const text: string[] = [];
  const receiver = nodeReceiver(published, () => assert.fail("it was called"));
  const request = Object.assign((async function* () {})(), { headers, body: {} });
  await receiver(request, { writeHead: (status) => text.push(String(status)), end: (said) => text.push(said) });
  assert.match(text.join(" "), /^500 TypeError: the body is parsed already/);
  assert.equal(log.mock.callCount(), 1);
});

test("requests of fetch are answered", async () => {
  const receiver = fetchReceiver([secret], () => assert.fail("it was called"));
  const answer = await receiver(new Request("http://127.0.0.1/", { method: "POST", headers, body }));
  assert.equal(answer.status, 401); // it is old
});

test("a body that is too large is not read to its end", async () => {
  let parts = 0;
  async function* endless() {
    for (; ; parts++) yield Buffer.alloc(1024);
  }
  let status = 0;
  const receiver = nodeReceiver([secret], () => assert.fail("it was called"));
  await receiver(Object.assign(endless(), { headers }), { writeHead: (given) => (status = given), end: () => {} });
  assert.deepEqual([status, parts], [401, 64]);
});
