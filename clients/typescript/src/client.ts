import { DuetimeError, refusal } from "./error.js";
import type { components, paths } from "./openapi.js";

type Schemas = components["schemas"];

/** Seconds with an s: "600s", "-0.5s", `${n}s`. */
export type Duration = `${number}s`;
/** A Date, or RFC 3339 with its zone: "2026-11-27T18:10:00+08:00". */
export type Moment = Date | string;
/** One of both. dueIn counts from now on the database's clock. */
export type Due = { dueAt: Moment; dueIn?: never } | { dueIn: Duration; dueAt?: never };
/** The change is made only if the task still has this version. */
export type IfVersion = { version?: string };

type Converted = "payload" | "payloadJson" | "dueAt" | "dueIn" | "window" | "maxWait";

/** A task to be scheduled. Its kind needs a handler or an endpoint, whose queue is to be named. */
export type NewTask<P = unknown> = Omit<Schemas["duetime.v1.NewTask"], Converted> &
  Due & { payload?: P; window?: Duration; maxWait?: Duration };

/** A task as it stands. Numbers that are zero and texts that are empty are left out. */
export type Task<P = unknown> = Omit<Schemas["duetime.v1.Task"], "payload" | "payloadJson" | "version"> & {
  payload: P;
  version: string;
};

export type Scheduled<P = unknown> = { task: Task<P>; outcome: Schemas["duetime.v1.Outcome"] };
/** Tasks that were due at the call and are pending still; with left at 0, what is read now is fresh. */
export type Left = Required<Schemas["duetime.v1.AwaitDueResponse"]>;

type Posts<B, A> = {
  post: {
    requestBody: { content: { "application/json": B } };
    responses: { 200: { content: { "application/json": A } } };
  };
};
/** The path of a call, such as "/duetime.v1.GroupService/MakeGroup". */
export type Call = { [P in keyof paths]: paths[P] extends Posts<unknown, unknown> ? P : never }[keyof paths];
export type Body<C extends Call> = paths[C] extends Posts<infer B, unknown> ? B : never;
export type Answer<C extends Call> = paths[C] extends Posts<unknown, infer A> ? A : never;

export interface Options {
  /** Where the API is: "https://duetime.example:8091". */
  url: string;
  token?: string;
  /** Milliseconds for a call with all its tries. */
  timeout?: number;
}

const tryTimeout = 21_000; // ms: the server answers within 20 s
const firstPause = 100; // ms between two tries
const maxPause = 2_000; // ms

/** Calls the API. A call is tried until it is answered or its time is over, as far as it may be repeated. */
export class Duetime {
  readonly #base: string;
  readonly #headers: Headers;
  readonly #timeout: number;

  constructor({ url, token, timeout = 30_000 }: Options) {
    this.#base = new URL(url).href.replace(/\/+$/, "");
    this.#headers = new Headers({ "Content-Type": "application/json" });
    if (token) this.#headers.set("Authorization", `Bearer ${token}`);
    this.#timeout = timeout;
  }

  /** Makes a task, or finds the one that has its key. A repeated try finds the task of the first one, by its id. */
  async schedule<P>(task: NewTask<P>): Promise<Scheduled<P>> {
    const body = { task: identified(task) };
    return readScheduled<P>(await this.call("/duetime.v1.TaskService/Schedule", body, { repeatable: true }));
  }

  /** Makes up to 1,000 tasks: all or none. Where the answer would be larger than 2 MiB, payloads in it are null. */
  async scheduleMany<P>(tasks: readonly NewTask<P>[]): Promise<Scheduled<P>[]> {
    const body = { tasks: tasks.map(identified) };
    const answer = await this.call("/duetime.v1.TaskService/ScheduleMany", body, { repeatable: true });
    return answer.results.map((one) => readScheduled<P>(one));
  }

  async get<P = unknown>(taskId: string): Promise<Task<P>> {
    return readTask<P>((await this.call("/duetime.v1.TaskService/Get", { taskId }, { repeatable: true })).task);
  }

  /** Gives a pending task another time. With a version it is tried once: a second try would meet the first one. */
  async reschedule<P = unknown>(taskId: string, to: Due & IfVersion): Promise<Task<P>> {
    const body = { taskId, ...to } as Body<"/duetime.v1.TaskService/Reschedule">;
    const repeatable = to.version === undefined;
    return readTask<P>((await this.call("/duetime.v1.TaskService/Reschedule", body, { repeatable })).task);
  }

  /** Moves a pending task. It is repeated only after an answer that says that nothing was changed. */
  async shift<P = unknown>(taskId: string, by: Duration, only: IfVersion & { dueWithin?: Duration } = {}): Promise<Task<P>> {
    return readTask<P>((await this.call("/duetime.v1.TaskService/Shift", { taskId, by, ...only })).task);
  }

  /** Takes a pending task back. Throws ALREADY_DONE and its like if that is too late. */
  async cancel<P = unknown>(taskId: string, only: IfVersion = {}): Promise<Task<P>> {
    try {
      const answer = await this.call("/duetime.v1.TaskService/Cancel", { taskId, ...only }, { repeatable: true });
      return readTask<P>(answer.task);
    } catch (err) {
      if (err instanceof DuetimeError && err.repeated && err.reason === "ALREADY_CANCELLED") return this.get<P>(taskId);
      throw err;
    }
  }

  /** Waits until what is due of an owner has taken effect, for 2 s unless timeout says 0.1 to 10 s. */
  async awaitDue(owner: string, only: { kind?: string; timeout?: Duration } = {}): Promise<Left> {
    const answer = await this.call("/duetime.v1.OwnerService/AwaitDue", { owner, ...only }, { repeatable: true });
    return { left: 0, failed: 0, paused: 0, limited: 0, ...answer };
  }

  /** Makes any call. One that is not repeatable is tried again only after an answer that says that nothing was changed. */
  async call<C extends Call>(call: C, body: Body<C>, { repeatable = false } = {}): Promise<Answer<C>> {
    const text = JSON.stringify(body);
    const ends = Date.now() + this.#timeout;
    let repeated = false;
    for (let pause = firstPause; ; pause = Math.min(2 * pause, maxPause)) {
      try {
        return (await this.#post(call, text, ends - Date.now())) as Answer<C>;
      } catch (err) {
        if (!(err instanceof DuetimeError)) throw err;
        err.repeated = repeated;
        const wait = pause * (1 - Math.random() / 2); // callers that failed together come back apart
        const allowed = err.retryable || (repeatable && err.commitUnknown);
        if (!allowed || Date.now() + wait >= ends) throw err;
        repeated ||= err.commitUnknown;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  async #post(call: string, body: string, timeout: number): Promise<unknown> {
    let refused: DuetimeError;
    try {
      const signal = AbortSignal.timeout(Math.ceil(Math.min(Math.max(timeout, 1), tryTimeout)));
      const response = await fetch(this.#base + call, {
        method: "POST", headers: this.#headers, body, redirect: "error", signal,
      });
      if (response.ok) return await response.json();
      refused = await refusal(response);
    } catch (cause) {
      throw new DuetimeError({ code: "unavailable", message: `${call} got no answer: ${(cause as Error).cause ?? cause}` }, { cause });
    }
    throw refused;
  }
}

/** Makes a UUIDv7. As taskId it makes a call repeatable beyond this process: keep it with your row, before you schedule. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  const now = Date.now();
  view.setUint32(0, Math.floor(now / 2 ** 16));
  view.setUint16(4, now % 2 ** 16);
  view.setUint8(6, (view.getUint8(6) & 0x0f) | 0x70);
  view.setUint8(8, (view.getUint8(8) & 0x3f) | 0x80);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// JSON.stringify makes RFC 3339 of a Date.
function identified(task: NewTask): Schemas["duetime.v1.NewTask"] {
  return { ...task, taskId: task.taskId ?? newId() } as Schemas["duetime.v1.NewTask"];
}

function readScheduled<P>({ task, outcome }: Schemas["duetime.v1.ScheduleResponse"]): Scheduled<P> {
  return { task: readTask<P>(task), outcome };
}

function readTask<P>({ payload, payloadJson, version, ...others }: Schemas["duetime.v1.Task"]): Task<P> {
  const value: unknown = payloadJson === undefined ? (payload ?? null) : JSON.parse(payloadJson);
  return { ...others, payload: value as P, version: String(version) };
}
