// BullMQ as the benchmark uses it: one queue of delayed jobs and one worker.
//
// Settings, each as its documentation recommends for throughput or low lag, everything else at its default:
//   concurrency                 env.workers in one worker: handlers wait for I/O (docs.bullmq.io, "Concurrency")
//   addBulk                     1000 jobs a call, a few calls in flight ("Adding jobs in bulk")
//   removeOnComplete count 0    finished jobs go at once, set on the worker so that no job carries it ("Auto-removal of jobs")
//   maxRetriesPerRequest null   what a worker's connection needs ("Connections")
// drainDelay matters only to a queue without delayed jobs: otherwise the worker blocks exactly until the next one, and
// that blocking command (BZPOPMIN) ends at a tick of Redis, whose `hz` bounds the lag. Stalled jobs are looked for every
// 30 s and may be recovered once (stalledInterval and maxStalledCount).
import { Job, Queue, Worker } from 'bullmq';

const name = 'bench';
const bulk = 1000;
const inFlight = 4;

// Custom ids must not be integers.
const jobId = (id) => `t${id}`;

// Delays count whole milliseconds from now. Rounding up keeps jobs from running early.
const delay = (due, now) => Math.max(0, Math.ceil(due / 1000) - now);

function entry(job) {
  const timestamp = Date.now();
  return { name: 'pet.meal', data: job, opts: { jobId: jobId(job.id), timestamp, delay: delay(job.due, timestamp) } };
}

function* chunks(jobs) {
  for (let at = 0; at < jobs.length; at += bulk) yield jobs.slice(at, at + bulk);
}

export class Delayed {
  constructor(env) {
    const [host, port] = env.redis.split(':');
    this.connection = { host, port: Number(port) };
    this.workers = env.workers;
    this.queue = new Queue(name, { connection: this.connection });
    this.queue.on('error', complain);
  }

  async open() {
    await this.queue.waitUntilReady();
  }

  async schedule(jobs) {
    if (jobs.length === 1) {
      const { name, data, opts } = entry(jobs[0]);
      await this.queue.add(name, data, opts);
      return;
    }
    const rest = chunks(jobs);
    const lane = async () => {
      for (const chunk of rest) await this.queue.addBulk(chunk.map(entry));
    };
    await Promise.all(Array.from({ length: inFlight }, lane));
  }

  // move needs the id alone: fetching the job first would cost another round trip.
  async move(job) {
    await new Job(this.queue, 'pet.meal', job, {}, jobId(job.id)).changeDelay(delay(job.due, Date.now()));
  }

  // work runs handle for each job that becomes due, until close.
  work(handle) {
    this.worker = new Worker(name, (job) => handle(job.data), {
      connection: { ...this.connection, maxRetriesPerRequest: null },
      concurrency: this.workers,
      removeOnComplete: { count: 0 },
    });
    this.worker.on('error', complain);
    this.worker.on('failed', (job, err) => complain(err));
  }

  async close() {
    await this.worker?.close();
    await this.queue.close();
  }
}

function complain(err) {
  console.error('bullmq:', err.message);
}
