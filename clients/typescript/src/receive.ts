import type { Duration } from "./client.js";

/** A due task, as a request delivers it. docs/PUSH.md says what the endpoint's answers do to the task. */
export interface Push<P = unknown> {
  /** The task's id, the same in each try: write it where the effect is written, and skip an id that is there. */
  id: string;
  kind: string;
  owner: string;
  subject: string | undefined;
  dueAt: string; // RFC 3339
  payload: P;
}

/** Of the form whsec_…, in a list or parted by spaces: while one is rotated, the old and the new one. */
export type Secrets = string | readonly string[];
export type HeaderSource = Iterable<readonly [string, string]> | Record<string, string | readonly string[] | undefined>;
/** Acts on a task. An error has the task tried again, after the kind's backoff. */
export type Handle<P = unknown> = (push: Push<P>) => unknown;

/** The request is not one of duetime's, or is too old. */
export class SignatureError extends Error {
  override readonly name = "SignatureError";
}

/** Thrown by a handler: the task is dead at once. */
export class Discard extends Error {
  override readonly name = "Discard";
}

/** Thrown by a handler: the task runs again after this time, a second to an hour, uncharged. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  constructor(readonly delay: Duration, message = "not yet") {
    super(message);
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
  if (!/^\d{1,12}$/.test(sent) || Math.abs(now.getTime() / 1000 - Number(sent)) > tolerance) {
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
    const read = async () => new Uint8Array(await request.arrayBuffer());
    const { status, headers, text } = await answer(request.headers, read, secrets, handle);
    return new Response(text || null, { status, headers });
  };
}

export type NodeRequest = AsyncIterable<Uint8Array> & { headers: Record<string, string | string[] | undefined>; body?: unknown };
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(text: string): unknown;
}

/** Makes a handler for createServer of node:http, and for Express before any parser of bodies. */
export function nodeReceiver<P = unknown>(
  secrets: Secrets, handle: Handle<P>,
): (request: NodeRequest, response: NodeResponse) => Promise<void> {
  keysOf(secrets);
  return async (request, response) => {
    const { status, headers, text } = await answer(request.headers, () => readBody(request), secrets, handle);
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
    if (err instanceof SignatureError) return { status: 401, headers: {}, text };
    if (err instanceof Discard) return { status: 410, headers: {}, text };
    if (err instanceof Snooze) {
      return { status: 503, headers: { "Retry-After": String(Math.ceil(parseFloat(err.delay))) }, text };
    }
    console.error("duetime: a handler failed:", err);
    return { status: 500, headers: {}, text };
  }
}

async function readBody(request: NodeRequest): Promise<Uint8Array> {
  if (request.body !== undefined) throw new TypeError("the body is parsed already: have the receiver before express.json()");
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > maxBody) throw new SignatureError(`the body has more than ${maxBody} bytes`);
    parts.push(part);
  }
  return concat(parts);
}

type Header = (name: string) => string;

function headerReader(headers: HeaderSource): Header {
  const pairs = Symbol.iterator in headers ? (headers as Iterable<readonly [string, string]>) : Object.entries(headers);
  const values = new Map([...pairs].map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
  return (name) => values.get(name) ?? "";
}

function readPush<P>(header: Header, payload: Uint8Array): Push<P> {
  const [id, kind, dueAt] = [header("webhook-id"), header("ce-type"), header("ce-time")];
  const [owner, subject] = [decoded(header("ce-owner")), decoded(header("ce-subject"))];
  if (!id || !kind || !owner || !dueAt) throw new SignatureError("webhook-id, ce-type, ce-owner and ce-time must be there");
  return { id, kind, owner, subject: subject || undefined, dueAt, payload: JSON.parse(new TextDecoder().decode(payload)) as P };
}

function decoded(attribute: string): string {
  try {
    return decodeURIComponent(attribute);
  } catch {
    throw new SignatureError("ce-owner and ce-subject must be percent-encoded UTF-8");
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
