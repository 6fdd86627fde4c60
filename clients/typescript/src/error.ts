import type { components } from "./openapi.js";

type Schemas = components["schemas"];
export type Code = Schemas["Error"]["code"];
/** What has happened, for programs: docs/API.md says what each means. A newer server may have more. */
export type Reason = Schemas["Reason"];

const codes: Record<Code, true> = {
  canceled: true, unknown: true, invalid_argument: true, deadline_exceeded: true, not_found: true, already_exists: true,
  permission_denied: true, resource_exhausted: true, failed_precondition: true, aborted: true, out_of_range: true, unimplemented: true,
  internal: true, unavailable: true, data_loss: true, unauthenticated: true,
};

// What fetch says in Node when there was no connection.
const unsent: readonly (string | undefined)[] = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];

/** A call that was refused, or got no answer. */
export class DuetimeError extends Error {
  override readonly name = "DuetimeError";
  readonly code: Code;
  /** Absent if a field is not as it must be, and if there was no answer. */
  readonly reason: Reason | undefined;
  /** The field that is wrong or taken, as docs/API.md names it: "task.due_in", "tasks[3].owner". */
  readonly field: string | undefined;
  /** What the field must be, for people. */
  readonly form: string | undefined;
  /** Of STALE_VERSION: the version that the task has. */
  readonly version: string | undefined;

  constructor(
    error: Schemas["Error"],
    /** The change may have been made, by this try or by an earlier one: look, or repeat a call that may be repeated. */
    public commitUnknown: boolean,
    options?: ErrorOptions,
  ) {
    super(error.message, options);
    this.code = error.code;
    const details = Array.isArray(error.details) ? error.details : [];
    const parts: Schemas["ErrorDebug"] = Object.assign({}, ...details.map((detail) => detail?.debug));
    const violation = parts.fieldViolations?.[0];
    this.reason = parts.domain === "duetime" ? (parts.reason as Reason) : undefined;
    this.field = violation?.field ?? parts.metadata?.["field"];
    this.form = violation?.description;
    this.version = parts.metadata?.["version"];
    if (this.reason !== undefined) this.commitUnknown = this.reason === "COMMIT_UNKNOWN";
  }

  /** Nothing was changed, and the call may succeed later. */
  get retryable(): boolean {
    return !this.commitUnknown && (this.code === "unavailable" || this.code === "deadline_exceeded");
  }
}

/** Reads an answer other than 200. One without an error of duetime's is a proxy's, or the URL leads elsewhere. */
export async function refusal(response: Response): Promise<DuetimeError> {
  const { status } = response; // 0: a redirect in a browser
  const body: unknown = await response.json().catch(() => undefined);
  const unsure = status >= 499 || status === 408; // a proxy says so too, while the server may commit
  if (isObject(body) && typeof body["code"] === "string" && Object.hasOwn(codes, body["code"])) {
    return new DuetimeError({ message: "", ...body } as Schemas["Error"], unsure);
  }
  const code = unsure || status === 429 ? "unavailable" : "unimplemented";
  return new DuetimeError({ code, message: `the answer is ${status || "a redirect"}, without an error of duetime's` }, unsure);
}

export function noAnswer(call: string, error: Error): DuetimeError {
  const cause = (error.cause ?? error) as Error & { code?: string };
  const message = `${call} got no answer: ${cause.message || cause.code}`;
  return new DuetimeError({ code: "unavailable", message }, !unsent.includes(cause.code), { cause: error });
}

export function unreadable(wanted: string): DuetimeError {
  return new DuetimeError({ code: "unknown", message: `the answer is 200, without ${wanted}` }, true);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
