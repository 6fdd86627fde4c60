// Package deliver hands tasks to HTTP endpoints, so that a service in any language can run them.
//
// It owns the request, the meaning of the answer, and the breaker of each endpoint. It promises that each request is signed
// by Standard Webhooks, that webhook-id is the task's id in each try, that a task is done only after an answer of 2xx, and
// that no request goes to an address that is neither public nor allowed. It never follows a redirect, never uses a proxy of
// the environment, and never puts a secret into an error. It doesn't limit how many requests are sent: that is the limit of
// the kind's queue.
//
// A service registers endpoints on its worker's mux by Handle. The command worker does so for the kinds of the section
// deliver of the configuration.
//
// # The protocol "deliver"
//
//  1. A worker locks the task's row and calls the handler, as for any outside handler: nothing else runs or changes the task
//     until the answer is there.
//  2. If the endpoint's breaker is open, the task is snoozed: it waits without using up an attempt.
//  3. The address is checked after DNS has answered, as it is dialed. The request has the payload as its body.
//  4. 2xx: done. 410: dead. 429 and 5xx with Retry-After: snoozed for that time, up to a day after the task was due. Any other
//     answer, and no answer within the endpoint's timeout: a failed attempt, retried with the kind's backoff.
//  5. Failures that speak against the endpoint (no answer, 3xx, 408, and 429 and 5xx without Retry-After) count for its
//     breaker; other answers close it. The breaker is the URL's: its neighbours behind the same host may be well.
//
// # Races that shaped it
//
//  1. The endpoint has acted, and the worker ends before its commit, or the answer is lost: the task is sent once more. So the
//     receiver must know ids that it has seen.
//  2. From the request to the commit of "done" the task's row is locked: a cancel answers "running". Between two tries the row
//     is free: a cancel answers yes, although the try that failed may have had its effect, as in 1. So who cancels looks at
//     the receiver's own state afterwards.
//  3. A row that is locked while an endpoint hangs delays whoever wants that row. So the endpoint's timeout is below the
//     handler's, and this is below the drain: a stop never cuts off a request that is within its time.
package deliver
