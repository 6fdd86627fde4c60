import { DuetimeError, isObject, noAnswer, refusal, unreadable, type Reason } from "./error.js";
import type { components, paths } from "./openapi.js";

type Schemas = components["schemas"];

export type State = Schemas["duetime.v1.State"];
export type Outcome = Schemas["duetime.v1.Outcome"];
export type KeyMode = Schemas["duetime.v1.KeyMode"];
/** Seconds with an s: "600s", "-0.5s", `${n}s`. */
export type Duration = `${number}s`;
/** A Date, or RFC 3339 with its zone: "2026-11-27T18:10:00+08:00". */
export type Moment = Date | string;
/** One of both. dueIn counts from now on the database's clock. */
export type Due = { dueAt: Moment; dueIn?: never } | { dueIn: Duration; dueAt?: never };
/** The change is made only if the task still has this version. */
export type IfVersion = { version?: string };

type Converted = "payload" | "dueAt" | "dueIn" | "window" | "maxWait";

/** A task to be scheduled, with payload or payloadJson. Its kind needs a handler or an endpoint, whose queue is to be named. */
export type NewTask<P = unknown> = Omit<Schemas["duetime.v1.NewTask"], Converted> &
  Due & { payload?: P; window?: Duration; maxWait?: Duration };

/**
 * A task as it stands. Numbers that are zero and texts that are empty are left out. Only get reads labels. payloadJson is there
 * where numbers of payload may have lost digits, and where payload is undefined, since SQL has written what is no JSON.
 */
export type Task<P = unknown> = Omit<Schemas["duetime.v1.Task"], "payload" | "version" | "dueAt"> & {
  payload: P;
  version: string;
  dueAt: string; // RFC 3339
};

export type Scheduled<P = unknown> = { task: Task<P>; outcome: Outcome };
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
  /** Milliseconds for a call with all its tries. Clients share connections: make another one for another timeout. */
  timeout?: number;
  /** Stands in for the global fetch: for certificates, headers or a proxy of your own. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

const tryTimeout = 21_000; // ms: the server answers within 20 s
const firstPause = 100; // ms between two tries
const maxPause = 2_000; // ms

/** Calls the API. A call is tried until it is answered or its time is over, as far as it may be repeated. */
export class Duetime {
  readonly #base: string;
  readonly #headers: Record<string, string> = { "Content-Type": "application/json" };
  readonly #timeout: number;
  readonly #fetch: NonNullable<Options["fetch"]>;

  constructor({ url, token, timeout = 30_000, fetch = (...request) => globalThis.fetch(...request) }: Options) {
    const base = new URL(url);
    if (!/^https?:$/.test(base.protocol) || base.username) throw new TypeError("url must begin with https:// or http://, without a user");
    this.#base = base.href.replace(/\/+$/, "");
    token = token?.trim();
    if (token && !/^[\x21-\x7e]+$/.test(token)) throw new TypeError("token must be ASCII without blanks"); // without the token itself
    if (token) this.#headers["Authorization"] = `Bearer ${token}`;
    this.#timeout = timeout;
    this.#fetch = fetch;
  }

  /**
   * Makes a task, or finds the one that has its key. After a lost answer it is repeated with the same id, by which it finds the
   * task that an earlier try has made. With KEY_MODE_MOVE and KEY_MODE_REPLACE it is not repeated, as reschedule.
   */
  async schedule<P>(task: NewTask<P>): Promise<Scheduled<P>> {
    const body = { task: identified(task) };
    const repeatable = changesNone(task);
    return readScheduled<P>(await this.call("/duetime.v1.TaskService/Schedule", body, { repeatable }));
  }

  /** Makes up to 1,000 tasks: all or none. Where the answer would be larger than 2 MiB, payloads in it are null. */
  async scheduleMany<P>(tasks: readonly NewTask<P>[]): Promise<Scheduled<P | null>[]> {
    const body = { tasks: tasks.map(identified) };
    const repeatable = tasks.every(changesNone);
    const { results } = await this.call("/duetime.v1.TaskService/ScheduleMany", body, { repeatable });
    if (results?.length !== tasks.length) throw unreadable(`${tasks.length} results`);
    return results.map((one) => readScheduled<P | null>(one));
  }

  async get<P = unknown>(taskId: string): Promise<Task<P>> {
    return readTask<P>((await this.call("/duetime.v1.TaskService/Get", { taskId })).task);
  }

  /**
   * Gives a pending task another time. It is not repeated after a lost answer: a second try might undo what another caller has
   * changed since the first one, or meet a task that was done in time.
   */
  async reschedule<P = unknown>(taskId: string, to: Due & IfVersion): Promise<Task<P>> {
    const body = { taskId, ...checked(to) } as Body<"/duetime.v1.TaskService/Reschedule">;
    return readTask<P>((await this.call("/duetime.v1.TaskService/Reschedule", body)).task);
  }

  /** Moves a pending task. It is not repeated after a lost answer. */
  async shift<P = unknown>(taskId: string, by: Duration, only: IfVersion & { dueWithin?: Duration } = {}): Promise<Task<P>> {
    return readTask<P>((await this.call("/duetime.v1.TaskService/Shift", { taskId, by, ...checked(only) })).task);
  }

  /**
   * Takes a pending task back. Throws ALREADY_DONE and its like if that is too late. After a lost answer it is repeated: then
   * another caller may have cancelled the task.
   */
  async cancel<P = unknown>(taskId: string, only: IfVersion = {}): Promise<Task<P>> {
    const ends = Date.now() + this.#timeout;
    try {
      return readTask<P>((await this.#call("/duetime.v1.TaskService/Cancel", { taskId, ...checked(only) }, true, ends)).task);
    } catch (err) {
      if (!(err instanceof DuetimeError && err.commitUnknown && isSettled(err.reason))) throw err;
      err.commitUnknown = false;
      if (err.reason !== "ALREADY_CANCELLED") throw err;
      return this.#call("/duetime.v1.TaskService/Get", { taskId }, true, ends).then(({ task }) => readTask<P>(task), () => { throw err; });
    }
  }

  /** Waits until what is due of an owner has taken effect, for 2 s unless timeout says 0.1 to 10 s. */
  async awaitDue(owner: string, only: { kind?: string; timeout?: Duration } = {}): Promise<Left> {
    const answer = await this.call("/duetime.v1.OwnerService/AwaitDue", { owner, ...only }, { repeatable: true });
    return { left: 0, failed: 0, paused: 0, limited: 0, ...answer };
  }

  /** Makes any call. After a lost answer, reads and calls that are said to be repeatable are tried again. */
  async call<C extends Call>(call: C, body: Body<C>, { repeatable = /\/(Get|List)\w*$/.test(call) } = {}): Promise<Answer<C>> {
    return this.#call(call, body, repeatable, Date.now() + this.#timeout);
  }

  async #call<C extends Call>(call: C, body: Body<C>, repeatable: boolean, ends: number): Promise<Answer<C>> {
    const text = JSON.stringify(body);
    let earlier = false; // try may have been carried out
    for (let pause = firstPause; ; pause = Math.min(2 * pause, maxPause)) {
      try {
        return (await this.#post(call, text, ends - Date.now())) as Answer<C>;
      } catch (err) {
        if (!(err instanceof DuetimeError)) throw err;
        const again = err.retryable || (repeatable && err.commitUnknown);
        err.commitUnknown ||= earlier;
        const wait = pause * (1 - Math.random() / 2); // callers that failed together come back apart
        if (!again || Date.now() + wait >= ends) throw err;
        earlier = err.commitUnknown;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  async #post(call: string, body: string, timeout: number): Promise<unknown> {
    const ms = Math.ceil(Math.min(Math.max(timeout, 1), tryTimeout));
    const headers = { ...this.#headers, "Connect-Timeout-Ms": String(ms) };
    let refused: DuetimeError;
    try {
      // A redirect is an answer like any other: Workers know no "error".
      const init: RequestInit = { method: "POST", headers, body, redirect: "manual", signal: AbortSignal.timeout(ms) };
      const response = await this.#fetch(this.#base + call, init);
      if (response.ok) {
        const answer: unknown = await response.json();
        if (isObject(answer)) return answer;
        throw new TypeError("200 without an object");
      }
      refused = await refusal(response);
    } catch (cause) {
      throw noAnswer(call, cause as Error);
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

// Repeated with its id, it changes no task: the try before has made the task of this id, or nothing.
function changesNone({ keyMode }: NewTask): boolean {
  return keyMode === undefined || keyMode === "KEY_MODE_KEEP" || keyMode === "KEY_MODE_WINDOW";
}

// Zero would be taken for none, and the change made to any version.
function checked<T extends IfVersion>(only: T): T {
  if (/^0*$/.test(only.version ?? "1")) throw new RangeError(`version must be 1 or more, and is "${only.version}"`);
  return only;
}

// A task that is cancelled stays so: what these say is what has become of an earlier try too.
function isSettled(reason: Reason | undefined): boolean {
  return reason === "ALREADY_CANCELLED" || reason === "ALREADY_DONE" || reason === "ALREADY_DEAD" || reason === "STALE_VERSION";
}

function readScheduled<P>({ task, outcome }: Schemas["duetime.v1.ScheduleResponse"]): Scheduled<P> {
  return { task: readTask<P>(task), outcome };
}

function readTask<P>(task: Schemas["duetime.v1.Task"] | undefined): Task<P> {
  if (!task?.version) throw unreadable("a task");
  const { payload = null, payloadJson, version, dueAt = "" } = task;
  return { ...task, payload: (payloadJson === undefined ? payload : parsed(payloadJson)) as P, version: String(version), dueAt };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
