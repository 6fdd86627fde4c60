package task

// EventDone is no line of the history, since the row itself says so: hooks are called with it (worker.Mux.OnEvent).
const EventDone = "done"

// Names of events.
const (
	EventFailed  = "failed"
	EventSnoozed = "snoozed"
	EventSkipped = "skipped"
	EventDead    = "dead"
)
