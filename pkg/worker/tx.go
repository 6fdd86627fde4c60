package worker

import "github.com/duetime/duetime/pkg/schedule"

// Tx is the transaction that a handler shares with the end of its tasks. It is the Tx of a request too, so one function serves both.
// It is over when the handler returns.
type Tx = schedule.Tx
