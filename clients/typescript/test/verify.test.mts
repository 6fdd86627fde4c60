// Requests to an endpoint, without a deployment.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { ReadableStream } from "node:stream/web";
import { test } from "node:test";
import { Discard, fetchReceiver, nodeReceiver, SignatureError, Snooze, verify, type Duration, type Handle } from "duetime";

// The example that Standard Webhooks publishes.
const published = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = '{"test": 2432232314}';
const sent = new Date(1_614_265_330_000);
const headers = {
  "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330",
  "Webhook-Signature": "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  "Ce-Type": "order.expire", "Ce-Owner": "customer%207", "Ce-Time": "2026-11-27T10:10:00.5Z",
};

const other = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh";

/** Headers of a request that was sent now. */
function signed(text: string, id = "7", at = String(Math.floor(Date.now() / 1000))): typeof headers {
  const digest = createHmac("sha256", Buffer.from(published.slice("whsec_".length), "base64")).update(`${id}.${at}.${text}`).digest("base64");
  return { ...headers, "Webhook-Id": id, "Webhook-Timestamp": at, "Webhook-Signature": `v1,${digest}` };
}

test("a genuine request is read", async () => {
  const push = {
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek", kind: "order.expire", owner: "customer 7", subject: undefined,
    dueAt: "2026-11-27T10:10:00.5Z", payload: { test: 2432232314 }, payloadJson: body,
  };
  assert.deepEqual(await verify(headers, body, published, sent), push);
  assert.deepEqual(await verify(new Headers(headers), Buffer.from(body), `${other}\n${published}`, new Date(+sent + 299_000)), push);
});

test("all else is refused", async () => {
  const refused = async (change: Record<string, string>, text = body, by = published, at = sent) =>
    assert.rejects(verify({ ...headers, ...change }, text, by, at), SignatureError, JSON.stringify([change, text, at]));
  await refused({}, `${body} `);
  await refused({}, body, other);
  for (const at of [new Date(+sent + 301_000), new Date(+sent - 301_000), new Date(NaN)]) await refused({}, body, published, at);
  for (const name of Object.keys(headers)) await refused({ [name]: "" });
  for (const id of ["7", "msg_p5jXN8AQM9LWM0D4loKWxJeK"]) await refused({ "Webhook-Id": id });
  for (const time of ["now", "1614265331", "1.614265330e9", "9".repeat(400)]) await refused({ "Webhook-Timestamp": time });
  const most = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ";
  for (const text of ["v1,ü", "v1,", `${most}1OE=`, `v2,${most}1OE=`, `v1,${most}`]) await refused({ "Webhook-Signature": text });
  await refused({ "Ce-Owner": "%zz" });
  // Signed as U.T.1614265330.75: a payload that is a number passes for the end of the time.
  await refused(signed("75", "U.T", "1614265330"), "75");
  await refused(signed("", "U.T", "1614265330.75"), "75");
  await refused(signed("no JSON", "7", "1614265330"), "no JSON");
});

test("a secret of another form is a mistake", async () => {
  const missing = process.env["DUETIME_NO_SUCH_SECRET"]!;
  for (const secrets of [missing, [], `${published} whsec_?`, [published, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "whsec_"]) {
    const mistake = { name: "TypeError", message: /^secret [12] must be whsec_ and base64$/ };
    await assert.rejects(verify(headers, body, secrets, sent), mistake, String(secrets));
    for (const receiver of [nodeReceiver, fetchReceiver]) assert.throws(() => receiver(secrets, () => {}), mistake);
  }
});

async function nodeAnswer(request: AsyncIterable<Uint8Array>, more: object, handle: Handle): Promise<[number, string]> {
  let status = 0;
  let text = "";
  const response = { writeHead: (given: number) => void (status = given), end: (said: string) => void (text = said) };
  await nodeReceiver(published, handle)(Object.assign(request, { headers: signed(body) }, more), response);
  return [status, text];
}

async function* partsOf(...parts: string[]) {
  for (const part of parts) yield Buffer.from(part);
}

const never = () => assert.fail("it was called");

test("a body that Express has parsed is a mistake, and one that it has read is not", async (t) => {
  const log = t.mock.method(console, "error", () => {});
  const [status, text] = await nodeAnswer(partsOf(), { body: {} }, never);
  assert.match(`${status} ${text}`, /^500 TypeError: the body is parsed already/);
  assert.equal(log.mock.callCount(), 1);
  assert.deepEqual(await nodeAnswer(partsOf(), { body: Buffer.from(body) }, () => {}), [204, ""]);
});

test("what a handler throws is answered, and a fault is logged", async (t) => {
  const errors = t.mock.method(console, "error", () => {});
  const warnings = t.mock.method(console, "warn", () => {});
  for (const [thrown, status, after] of [
    [undefined, 204, null], [new Discard("no"), 410, null], [new Snooze("6.5s"), 503, "7"], [new RangeError("out of stock"), 500, null],
  ] as const) {
    const receiver = fetchReceiver(published, async () => { if (thrown) throw thrown; });
    const answer = await receiver(new Request("http://127.0.0.1/", { method: "POST", headers: signed(body), body }));
    assert.deepEqual([answer.status, answer.headers.get("Retry-After")], [status, after]);
  }
  const stranger = fetchReceiver(other, never);
  const answer = await stranger(new Request("http://127.0.0.1/", { method: "POST", headers: signed(body), body }));
  assert.deepEqual([answer.status, errors.mock.callCount(), warnings.mock.callCount()], [401, 1, 1]);
  assert.equal((await stranger(new Request("http://127.0.0.1/"))).status, 401);
});

test("a snooze is a second to an hour", () => {
  for (const delay of ["0s", "-1s", "3601s", "10m", "NaNs", 60] as Duration[]) assert.throws(() => new Snooze(delay), RangeError, String(delay));
  for (const delay of ["0.5s", "3600s"] as const) assert.equal(new Snooze(delay).delay, delay);
});

test("a body that is too large is not read to its end", async (t) => {
  t.mock.method(console, "warn", () => {});
  let parts = 0;
  async function* large() {
    for (; parts < 1000; parts++) yield Buffer.alloc(1024);
  }
  assert.deepEqual([(await nodeAnswer(large(), {}, never))[0], parts], [401, 64]);
  parts = 0;
  const stream = ReadableStream.from(large()) as unknown as BodyInit;
  const answer = await fetchReceiver(published, never)(
    new Request("http://127.0.0.1/", { method: "POST", headers, body: stream, duplex: "half" } as RequestInit));
  assert.equal(answer.status, 401);
  assert(parts < 100, `${parts} parts were read`);
});
