package stream

import (
	"errors"

	"github.com/duetime/duetime/internal/broker"
)

// Errors of both adapters.
var (
	// ErrSessionOver says that the generation of a session has ended: nothing more can be fetched or committed in it.
	ErrSessionOver = broker.ErrSessionOver
	// ErrOutcomeUnknown says that no answer came in time: the message may be in the log, or come into it later.
	ErrOutcomeUnknown = broker.ErrOutcomeUnknown
	// ErrClosed says that the adapter was closed.
	ErrClosed = errors.New("stream is closed")
)

// Refusal turns the broker's "never" into a permanent error that names what to change; nil for all other errors.
func Refusal(err error) error { return broker.Refusal(err) }
