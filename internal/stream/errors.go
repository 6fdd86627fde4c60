package stream

import "github.com/duetime/duetime/internal/broker"

// ErrSessionOver says that the generation of a session has ended: nothing more can be fetched or committed in it.
var ErrSessionOver = broker.ErrSessionOver

// Refusal returns a permanent error that names what to change, if the broker refused for good; nil for all other errors.
func Refusal(err error) error { return broker.Refusal(err) }
