import type { components } from "./openapi.js";

type Schemas = components["schemas"];
export type Code = Schemas["Error"]["code"];
/** What has happened, for programs: docs/API.md says what each means. A newer server may have more. */
export type Reason = Schemas["Reason"];

// Codes that a client or a proxy makes too, while the server may commit.
const unsure: ReadonlySet<Code> = new Set<Code>(["deadline_exceeded", "unavailable", "canceled", "internal", "unknown"]);

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
  /** An earlier try of this call got no answer, and may have been carried out. */
  repeated = false;

  constructor(error: Schemas["Error"], options?: ErrorOptions) {
    super(error.message, options);
    this.code = error.code;
    const parts: Schemas["ErrorDebug"] = Object.assign({}, ...(error.details ?? []).map((detail) => detail.debug));
    const violation = parts.fieldViolations?.[0];
    this.reason = parts.domain === "duetime" ? (parts.reason as Reason) : undefined;
    this.field = violation?.field ?? parts.metadata?.["field"];
    this.form = violation?.description;
    this.version = parts.metadata?.["version"];
  }

  /** Nothing was changed, and the call may succeed later. */
  get retryable(): boolean {
    return this.reason !== undefined && (this.code === "unavailable" || this.code === "deadline_exceeded");
  }

  /** The change may have been made, by this try or by an earlier one: look, or repeat a call that may be repeated. */
  get commitUnknown(): boolean {
    if (this.reason === undefined) return unsure.has(this.code);
    return this.reason === "COMMIT_UNKNOWN" || (this.repeated && this.retryable);
  }
}

/** Reads an answer other than 200. One without an error of duetime's is a proxy's, or the URL leads elsewhere. */
export async function refusal(response: Response): Promise<DuetimeError> {
  const body: unknown = await response.json().catch(() => undefined);
  if (typeof body === "object" && body !== null && "code" in body && typeof body.code === "string") {
    return new DuetimeError({ message: "", ...body } as Schemas["Error"]);
  }
  const code = response.status >= 500 || response.status === 429 ? "unavailable" : "unimplemented";
  return new DuetimeError({ code, message: `the answer is ${response.status}, without an error of duetime's` });
}
