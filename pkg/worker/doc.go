// Package worker is what a service says of its tasks' handlers: it maps kinds to handlers, which run in a transaction of MySQL that
// holds the task's row, the handler's effect, and the word "done".
//
// A service fills a Mux by Handle, HandleBatch and HandleOutside, and gives it to the Work of a duetime.Client or of an
// embedded.Pipeline. A handler writes through its Tx, and answers nil, an error, Snooze or Discard. An effect through a Tx takes place
// exactly once and never before its time. Middleware (Mux.Use) wraps the handlers' calls, and hooks (Mux.OnEvent) are called with
// what became of tasks.
package worker
