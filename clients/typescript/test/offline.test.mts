// Calls that need no deployment: a stub answers them.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { Duetime, DuetimeError, newId, type KeyMode, type NewTask } from "duetime";
import { faulty, refusing, type Answer, type Fault } from "./stub.mjs";

const order = { kind: "order.expire", owner: "typescript", payload: { order: 42 }, dueIn: "3600s" } as const;
const task = {
  taskId: newId(), kind: "order.expire", owner: "typescript", queue: "default", state: "STATE_PENDING", version: "1",
  dueAt: "2027-01-01T00:00:00Z",
};
const done: Answer = { status: 200, body: JSON.stringify({ task, outcome: "OUTCOME_MADE" }) };

/** The requests of a call that meets these faults, and the error in which it ends. */
async function meets(faults: Fault[], call: (client: Duetime) => Promise<unknown>) {
  let error: DuetimeError | undefined;
  const requests = await faulty([...faults, done], (client) => call(client).catch((err: unknown) => {
    assert(err instanceof DuetimeError, String(err));
    error = err;
  }));
  return { requests, code: error?.code, reason: error?.reason, commitUnknown: error?.commitUnknown, retryable: error?.retryable };
}

const made = { code: undefined, reason: undefined, commitUnknown: undefined, retryable: undefined };
const unknown = { code: "unavailable", reason: undefined, commitUnknown: true, retryable: false };
const elsewhere = { code: "unimplemented", reason: undefined, commitUnknown: false, retryable: false };

test("a call that changes another's task is not repeated after a lost answer", async () => {
  const keyed = (keyMode?: KeyMode): NewTask => ({ ...order, key: "order-42", ...(keyMode && { keyMode }) });
  for (const mode of ["KEY_MODE_MOVE", "KEY_MODE_REPLACE"] as const) {
    assert.deepEqual(await meets(["lost"], (client) => client.schedule(keyed(mode))), { requests: 1, ...unknown }, mode);
    assert.deepEqual(await meets(["lost"], (client) => client.scheduleMany([order, keyed(mode)])), { requests: 1, ...unknown }, mode);
  }
  for (const mode of [undefined, "KEY_MODE_KEEP", "KEY_MODE_WINDOW"] as const) {
    assert.deepEqual(await meets(["lost"], (client) => client.schedule(keyed(mode))), { requests: 2, ...made }, String(mode));
  }
  for (const to of [{ dueIn: "60s" }, { dueAt: new Date() }, { dueIn: "60s", version: "2" }] as const) {
    assert.deepEqual(await meets(["lost"], (client) => client.reschedule(task.taskId, to)), { requests: 1, ...unknown });
  }
  assert.deepEqual(await meets(["lost"], (client) => client.shift(task.taskId, "60s")), { requests: 1, ...unknown });
});

test("a repeated call has the same id in each try", async () => {
  const ids: string[] = [];
  await faulty(["lost"], (client) => client.schedule(order), async (_, body) => {
    ids.push(JSON.parse(body).task.taskId);
    return done;
  });
  assert.deepEqual([ids.length, new Set(ids).size], [2, 1]);
});

test("a refusal after a lost answer leaves open what the lost try did", async () => {
  const refusals: Answer[] = [
    { status: 404, body: "<html>" }, { status: 401, body: '{"code": "unauthenticated"}' },
    refusing(403, "permission_denied", "ROLE"), refusing(400, "failed_precondition", "OWNER_BLOCKED"),
  ];
  for (const refusal of refusals) {
    const { requests, commitUnknown, retryable } = await meets(["lost", refusal], (client) => client.schedule(order));
    assert.deepEqual([requests, commitUnknown, retryable], [2, true, false], refusal.body);
  }
  const away = refusing(503, "unavailable", "DATABASE_AWAY");
  assert.deepEqual(await meets(["lost", away, away], (client) => client.schedule(order)), { requests: 4, ...made });
  const { commitUnknown, retryable } = await meets(["lost", away, { status: 404, body: "" }], (client) => client.schedule(order));
  assert.deepEqual([commitUnknown, retryable], [true, false]);
});

test("an answer that is not duetime's is known by its status", async () => {
  const shift = (client: Duetime) => client.shift(task.taskId, "60s");
  for (const [status, body] of [
    [502, "<html>"], [408, ""], [504, '{"code": "GATEWAY_TIMEOUT"}'], [504, '{"code": "not_found"}'], [500, '{"code": "toString"}'],
    [503, '{"code": "unavailable", "details": null}'], [503, '{"code": "unavailable", "details": "none"}'],
    [503, '{"code": "unavailable", "details": ["none", null, {"debug": 7}]}'], [200, "<html>"], [200, "[]"],
  ] as const) {
    const { requests, commitUnknown } = await meets([{ status, body }], shift);
    assert.deepEqual([requests, commitUnknown], [1, true], `${status} ${body}`);
  }
  for (const status of [302, 308, 404, 413]) assert.deepEqual(await meets([{ status, body: "" }], shift), { requests: 1, ...elsewhere });
  assert.deepEqual(await meets([{ status: 429, body: "" }], shift), { requests: 2, ...made });
  assert.deepEqual(await meets([refusing(503, "unavailable", "TRY_LATER")], shift), { requests: 2, ...made });
  assert.deepEqual(await meets([{ status: 200, body: "{}" }], shift), { requests: 1, ...unknown, code: "unknown" });
  assert.deepEqual(await meets([{ status: 200, body: '{"results": []}' }], (client) => client.scheduleMany([order])), { requests: 1, ...unknown, code: "unknown" });
});

test("a cancel whose answer was lost tells what has become of the task", async () => {
  const cancel = (client: Duetime) => client.cancel(task.taskId);
  const cancelled = refusing(400, "failed_precondition", "ALREADY_CANCELLED");
  const settled = { code: "failed_precondition", commitUnknown: false, retryable: false };
  assert.deepEqual(await meets(["lost", cancelled], cancel), { requests: 3, ...made });
  assert.deepEqual(await meets(["lost", cancelled, { status: 404, body: "" }], cancel), { requests: 3, ...settled, reason: "ALREADY_CANCELLED" });
  assert.deepEqual(await meets([cancelled], cancel), { requests: 1, ...settled, reason: "ALREADY_CANCELLED" });
  const late = refusing(400, "failed_precondition", "ALREADY_DONE");
  assert.deepEqual(await meets(["lost", late], cancel), { requests: 2, ...settled, reason: "ALREADY_DONE" });
});

test("reads are repeated by call too", async () => {
  assert.deepEqual(await meets(["lost"], (client) => client.call("/duetime.v1.TaskService/List", {})), { requests: 2, ...made });
  assert.deepEqual(await meets(["lost"], (client) => client.call("/duetime.v1.GroupService/GetGroup", { name: "siege" })), { requests: 2, ...made });
  assert.equal((await meets(["lost"], (client) => client.call("/duetime.v1.GroupService/SealGroup", { name: "siege" }))).requests, 1);
});

test("a connection that was not made changed nothing", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise((resolve) => server.close(resolve));
  let tries = 0;
  const client = new Duetime({ url, fetch: async (...request) => (++tries > 1 ? Response.json({ task }) : fetch(...request)) });
  await client.shift(task.taskId, "60s");
  assert.equal(tries, 2);
  const away = new Duetime({ url, timeout: 1, fetch: (to, { signal, ...init }) => fetch(to, init) });
  await assert.rejects(away.shift(task.taskId, "60s"), { code: "unavailable", commitUnknown: false, retryable: true, message: /ECONNREFUSED/ });
});

test("payloads that a double or JSON can't have come as text", async () => {
  const read = (payloadJson: string) => faulty([{ status: 200, body: JSON.stringify({ task: { ...task, payloadJson } }) }], async (client) => {
    const got = await client.get(task.taskId);
    assert.equal(got.payloadJson, payloadJson);
    if (payloadJson === "no JSON") assert.equal(got.payload, undefined);
  });
  for (const text of ["9007199254740993", "no JSON"]) assert.equal(await read(text), 1);
  await faulty([], async (client) => client.schedule({ ...order, payload: undefined, payloadJson: "9007199254740993" }), async (_, body) => {
    assert.equal(JSON.parse(body).task.payloadJson, "9007199254740993");
    return done;
  });
});

test("a fetch of one's own gets the token, the deadline and no redirect", async () => {
  const seen: RequestInit[] = [];
  const client = new Duetime({
    url: "https://duetime.example/", token: " secret-token\n", timeout: 1500,
    fetch: async (url, init) => {
      assert.equal(url, "https://duetime.example/duetime.v1.TaskService/Get");
      seen.push(init);
      return Response.json({ task });
    },
  });
  await client.get(task.taskId);
  const headers = new Headers(seen[0]?.headers);
  assert.deepEqual([headers.get("Authorization"), seen[0]?.redirect], ["Bearer secret-token", "manual"]);
  const ms = Number(headers.get("Connect-Timeout-Ms"));
  assert(ms > 0 && ms <= 1500, String(ms));
});

test("what can't work is a mistake at once", async () => {
  for (const url of ["duetime", "localhost:8091", "file:///etc/passwd", "https://user:secret@duetime.example"]) {
    assert.throws(() => new Duetime({ url }), { name: "TypeError", message: /url/i });
  }
  for (const token of ["sec ret", "sec\nret", "secrät"]) {
    assert.throws(() => new Duetime({ url: "http://127.0.0.1:1", token }), { name: "TypeError", message: "token must be ASCII without blanks" });
  }
  const client = new Duetime({ url: "http://127.0.0.1:1" });
  for (const version of ["0", ""]) {
    for (const call of [() => client.cancel("7", { version }), () => client.shift("7", "1s", { version }), () => client.reschedule("7", { dueIn: "1s", version })]) {
      await assert.rejects(call(), RangeError);
    }
  }
});

test("ids are UUIDs of version 7", () => {
  assert.match(newId(), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert(Math.abs(parseInt(newId().replace("-", "").slice(0, 12), 16) - Date.now()) < 60_000);
});
