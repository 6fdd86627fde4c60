// Runs BullMQ in a process of its own, by the protocol of bench/protocol: one request a line on standard input, one
// answer a line on standard output. The environment variable BENCH is an Env of bench/queue in JSON.
import readline from 'node:readline';

import { Delayed } from './delayed.mjs';
import { feed, insertRows, openPool } from './mysql.mjs';

const env = JSON.parse(process.env.BENCH);
const pool = env.mysql ? openPool(env.mysql, env.workers) : null;
const queue = new Delayed(env);

const seen = { started: 0, done: 0, last: 0 };
const marks = [];

// nowMicros is the wall clock in whole µs. Date.now counts whole ms; performance.now has the fraction, but drifts from
// a wall clock that is being corrected: it is believed within that ms only.
function nowMicros() {
  const ms = Date.now();
  const fine = performance.timeOrigin + performance.now();
  return Math.floor(1000 * Math.min(Math.max(fine, ms), ms + 0.999));
}

// job gives the n-th job of a request. With a count, the numbers go round while the due times go on.
function job(request, n) {
  return { id: request.first + (request.count > 0 ? n % request.count : n), due: request.due + n * request.step };
}

function jobs(request, from, count) {
  return Array.from({ length: count }, (_, i) => job(request, from + i));
}

async function timed(make) {
  const began = performance.now();
  const count = await make();
  return { jobs: count, micros: Math.round(1000 * (performance.now() - began)) };
}

// many makes calls for so long from so many callers, numbered from 0; each is for `bulk` jobs.
function many(request, bulk, call) {
  const until = performance.now() + request.seconds * 1000;
  let next = 0;
  let made = 0;
  const caller = async () => {
    while (performance.now() < until) {
      await call(next++);
      made += bulk;
    }
  };
  return timed(async () => {
    await Promise.all(Array.from({ length: request.callers }, caller));
    return made;
  });
}

function schedule(request) {
  return timed(async () => {
    await queue.schedule(jobs(request, 0, request.count));
    return request.count;
  });
}

// accept makes jobs as a service that must not forget them does: with a row in its database first.
function accept(request) {
  const bulk = Math.max(request.bulk, 1);
  return many(request, bulk, async (n) => {
    const batch = jobs(request, n * bulk, bulk);
    await insertRows(pool, batch);
    await queue.schedule(batch);
  });
}

const move = (request) => many(request, 1, (n) => queue.move(job(request, n)));

function handler(effect) {
  return async ({ id, due }) => {
    const start = nowMicros();
    seen.started++;
    if (effect) await feed(pool, id);
    seen.last = nowMicros();
    seen.done++;
    marks.push({ ID: id, Start: start - due, Done: seen.last - due });
  };
}

async function close() {
  await queue.close();
  await pool?.end();
}

const operations = {
  schedule,
  accept,
  move,
  work: (request) => queue.work(handler(request.effect)),
  seen: () => seen,
  marks: () => ({ marks }),
  stop: close,
};

async function answer(request) {
  const operation = operations[request.op];
  if (!operation) return { error: `this system can't ${request.op}` };
  try {
    return (await operation(request)) ?? {};
  } catch (err) {
    return { error: err.message };
  }
}

function print(response) {
  return new Promise((written) => process.stdout.write(`${JSON.stringify(response)}\n`, written));
}

await queue.open();
await print({});
for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  await print(await answer(request));
  if (request.op === 'stop') break;
}
process.exit(0);
