import type { Duration } from "./client.js";

/** A due task, as a request delivers it. docs/PUSH.md says what the endpoint's answers do to the task. */
export interface Push<P = unknown> {
  /** The task's id, the same in each try: write it where the effect is written, and skip an id that is there. */
  id: string;
  /** Not signed, nor are owner, subject and dueAt: kinds that must not be taken for each other have a secret each. */
  kind: string;
  owner: string;
  subject: string | undefined;
  dueAt: string; // RFC 3339
  payload: P;
  /** The payload as it came, with all digits of its numbers. */
  payloadJson: string;
}

/** Of the form whsec_…, in a list or parted by spaces: while one is rotated, the old and the new one. */
export type Secrets = string | readonly string[];
export type HeaderSource = Iterable<readonly [string, string]> | Record<string, string | readonly string[] | undefined>;
/** Acts on a task. An error has the task tried again, after the kind's backoff. */
export type Handle<P = unknown> = (push: Push<P>) => unknown;

/** The request is not one of duetime's, is too old, or can't be read. */
export class SignatureError extends Error {
  override readonly name = "SignatureError";
}

/** Thrown by a handler: the task is dead at once. */
export class Discard extends Error {
  override readonly name = "Discard";
}

/** Thrown by a handler: the task runs again after this time, at most an hour; uncharged, until a day after it was due. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  constructor(readonly delay: Duration, message = "not yet") {
    super(message);
    const seconds = /^\d+(\.\d+)?s$/.test(delay) ? parseFloat(delay) : 0;
    if (seconds <= 0 || seconds > 3600) throw new RangeError(`delay must be at most "3600s", and is "${delay}"`);
  }
}

const tolerance = 300; // s that the sender's clock may be off
const maxSignatures = 16; // of a request; duetime makes one for each of up to 8 secrets
const maxBody = 64 * 1024; // bytes; a payload has at most 4 KiB
const encoder = new TextEncoder();

/**
 * Checks the request of a due task: body is what came, before it is parsed. Throws SignatureError. The signature covers the id,
 * the time and the payload, and not the kind, the owner, the subject and the due time: these are as safe as the connection.
 */
export async function verify<P = unknown>(
  headers: HeaderSource, body: Uint8Array | string, secrets: Secrets, now = new Date(),
): Promise<Push<P>> {
  const keys = keysOf(secrets);
  const header = headerReader(headers);
  const id = header("webhook-id");
  const sent = header("webhook-timestamp");
  if (!id || id.includes(".")) throw new SignatureError("webhook-id must be there, without a dot"); // a dot ends it in what is signed
  if (!/^\d{1,12}$/.test(sent) || !(Math.abs(now.getTime() / 1000 - Number(sent)) <= tolerance)) {
    throw new SignatureError(`webhook-timestamp must be a time in seconds, at most ${tolerance} s off`);
  }
  const payload = typeof body === "string" ? encoder.encode(body) : body;
  const signed = concat([encoder.encode(`${id}.${sent}.`), payload]);
  const listed = header("webhook-signature").split(" ").slice(0, maxSignatures);
  const signatures = listed.filter((one) => one.startsWith("v1,")).map((one) => fromBase64(one.slice("v1,".length)));
  for (const bytes of keys) {
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures) {
      if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed))) return readPush<P>(header, payload);
    }
  }
  throw new SignatureError("webhook-signature has no signature by a secret of this endpoint");
}

/** Makes a handler of web-standard requests, as Deno, Bun, Workers and route handlers of web frameworks take it. */
export function fetchReceiver<P = unknown>(secrets: Secrets, handle: Handle<P>): (request: Request) => Promise<Response> {
  keysOf(secrets);
  return async (request) => {
    const parts = (request.body ?? []) as Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
    const { status, headers, text } = await answer(request.headers, () => readBody(parts), secrets, handle);
    return new Response(text || null, { status, headers });
  };
}

export type NodeRequest = AsyncIterable<Uint8Array> & { headers: Record<string, string | string[] | undefined>; body?: unknown };
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(text: string): unknown;
}

/** Makes a handler for createServer of node:http, and for Express before any parser of bodies but express.raw(). */
export function nodeReceiver<P = unknown>(
  secrets: Secrets, handle: Handle<P>,
): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  keysOf(secrets);
  return async (request, response) => {
    const { status, headers, text } = await answer(request.headers, () => readNode(request), secrets, handle);
    response.writeHead(status, headers);
    response.end(text);
  };
}

async function answer<P>(
  headers: HeaderSource, read: () => Promise<Uint8Array>, secrets: Secrets, handle: Handle<P>,
): Promise<{ status: number; headers: Record<string, string>; text: string }> {
  try {
    await handle(await verify<P>(headers, await read(), secrets));
    return { status: 204, headers: {}, text: "" };
  } catch (err) {
    const text = err instanceof Error ? `${err.name}: ${err.message}` : String(err); // stands in the task's last error
    if (err instanceof SignatureError) {
      console.warn("duetime: a request was refused:", err.message);
      return { status: 401, headers: {}, text };
    }
    if (err instanceof Discard) return { status: 410, headers: {}, text };
    if (err instanceof Snooze) {
      return { status: 503, headers: { "Retry-After": String(Math.ceil(parseFloat(err.delay))) }, text };
    }
    console.error("duetime: a handler failed:", err);
    return { status: 500, headers: {}, text };
  }
}

async function readNode(request: NodeRequest): Promise<Uint8Array> {
  if (request.body === undefined) return readBody(request);
  if (request.body instanceof Uint8Array) return request.body;
  throw new TypeError("the body is parsed already: have the receiver before express.json()");
}

async function readBody(parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const read: Uint8Array[] = [];
  let size = 0;
  for await (const part of parts) {
    size += part.length;
    if (size > maxBody) throw new SignatureError(`the body has more than ${maxBody} bytes`);
    read.push(part);
  }
  return concat(read);
}

type Header = (name: string) => string;

function headerReader(headers: HeaderSource): Header {
  const pairs = Symbol.iterator in headers ? (headers as Iterable<readonly [string, string]>) : Object.entries(headers);
  const values = new Map([...pairs].map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
  return (name) => values.get(name) ?? "";
}

function readPush<P>(header: Header, payload: Uint8Array): Push<P> {
  const [id, kind, dueAt] = [header("webhook-id"), header("ce-type"), header("ce-time")];
  const [owner, subject] = ["ce-owner", "ce-subject"].map((name) => readable(name, () => decodeURIComponent(header(name))));
  if (!kind || !owner || !dueAt) throw new SignatureError("ce-type, ce-owner and ce-time must be there");
  const payloadJson = new TextDecoder().decode(payload);
  const value = readable("the payload", () => JSON.parse(payloadJson) as P);
  return { id, kind, owner, subject: subject || undefined, dueAt, payload: value, payloadJson };
}

function readable<V>(what: string, read: () => V): V {
  try {
    return read();
  } catch (cause) {
    throw new SignatureError(`${what} can't be read: ${(cause as Error).message}`, { cause });
  }
}

function keysOf(secrets: Secrets): Uint8Array<ArrayBuffer>[] {
  return [secrets].flat().join(" ").trim().split(/\s+/).map((secret, i) => {
    const key = secret.startsWith("whsec_") ? fromBase64(secret.slice("whsec_".length)) : undefined;
    if (!key?.length) throw new TypeError(`secret ${i + 1} must be whsec_ and base64`); // without the secret itself
    return key;
  });
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
