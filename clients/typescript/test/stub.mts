// A server in place of the API, or before it.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Duetime } from "duetime";

export async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

export type Answer = { status: number; body: string };
/** A request is carried out and its answer lost, it is answered so, or it is carried out after this is done. */
export type Fault = "lost" | Answer | (() => Promise<unknown>);
export type CarryOut = (request: IncomingMessage, body: string) => Promise<Answer>;

/** Runs fn with a client of a server whose first requests meet these faults, and returns how many requests came. */
export async function faulty(faults: Fault[], fn: (client: Duetime) => Promise<unknown>, carryOut: CarryOut = nothing): Promise<number> {
  let requests = 0;
  const server = createServer(async (request, response) => {
    const fault = faults[requests++];
    const body = (await bytesOf(request)).toString();
    if (typeof fault === "function") await fault();
    const answer = typeof fault === "object" ? fault : await carryOut(request, body);
    if (fault === "lost") return void request.socket.destroy();
    response.writeHead(answer.status, { "Content-Type": "application/json", Location: request.url }).end(answer.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await fn(new Duetime({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, token: "stub-0123456789abcdef" }));
  } finally {
    server.close();
    server.closeAllConnections();
  }
  return requests;
}

async function nothing(): Promise<Answer> {
  return { status: 200, body: "{}" };
}

/** An answer with an error of duetime's. */
export function refusing(status: number, code: string, reason: string): Answer {
  const details = [{ type: "google.rpc.ErrorInfo", debug: { reason, domain: "duetime" } }];
  return { status, body: JSON.stringify({ code, message: reason, details }) };
}
