// The deployment that internal/test/e2e/packages_test.go starts, and a proxy before its API.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { Duetime } from "duetime";

function environment(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} must be set`);
  return value;
}

export const url = environment("DUETIME_API");
export const token = environment("DUETIME_TOKEN");
export const secret = environment("DUETIME_SECRET");
export const listen = new URL(`http://${environment("DUETIME_LISTEN_TYPESCRIPT")}`);
export const duetime = new Duetime({ url, token });

export async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** What happens to a request: its answer is lost, or it is answered with a status and a body without reaching the API. */
export type Fault = "lost" | { status: number; body: string };

/** Runs fn with a client of a proxy whose first requests meet these faults, and returns how many requests came. */
export async function faulty(faults: Fault[], fn: (client: Duetime) => Promise<void>): Promise<number> {
  let requests = 0;
  const proxy = createServer(async (request, response) => {
    const fault = faults[requests++];
    const body = (await bytesOf(request)).toString();
    if (typeof fault === "object") {
      response.writeHead(fault.status, { "Content-Type": "application/json" }).end(fault.body);
      return;
    }
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
    const answer = await fetch(url + request.url, { method: "POST", headers, body });
    const text = await answer.text();
    if (fault === "lost") request.socket.destroy();
    else response.writeHead(answer.status, { "Content-Type": "application/json" }).end(text);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  try {
    await fn(new Duetime({ url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/` }));
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
  return requests;
}
