package task

import "time"

// BlockedOwner is an owner whose tasks do not run, and who gets no new ones.
type BlockedOwner struct {
	Owner string
	At    time.Time // since when, on the database's clock
	Actor string    // who has blocked the owner: service, worker, or user@host of an operator
}
