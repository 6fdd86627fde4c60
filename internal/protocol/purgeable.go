package protocol

// Purgeable says whose rows a purge deletes once they have ended long enough ago; its zero value: all.
type Purgeable struct {
	Only   []string // kinds, of which those that are done or cancelled
	Except []string // kinds, of which only dead tasks
}
