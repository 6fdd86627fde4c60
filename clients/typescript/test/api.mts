// The deployment that internal/test/e2e/packages_test.go starts, and a proxy before its API.
import { Duetime } from "duetime";
import { faulty as stub, type CarryOut, type Fault } from "./stub.mjs";

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

const forward: CarryOut = async (request, body) => {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
  const answer = await fetch(url + request.url, { method: "POST", headers, body });
  return { status: answer.status, body: await answer.text() };
};

/** Runs fn with a client of a proxy before the API, whose first requests meet these faults; returns how many requests came. */
export const faulty = (faults: Fault[], fn: (client: Duetime) => Promise<unknown>) => stub(faults, fn, forward);
