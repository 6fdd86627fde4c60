package stream

import (
	"errors"

	"github.com/duetime/duetime/internal/broker"
)

// Errors of both adapters.
var (
	// ErrSessionOver says that the generation of a session has ended: nothing more can be fetched or committed in it.
	ErrSessionOver = broker.ErrSessionOver
	// ErrOutcomeUnknown says that no answer came in time: the message may be in the log, or be appended later.
	ErrOutcomeUnknown = broker.ErrOutcomeUnknown
	// ErrClosed says that the adapter was closed.
	ErrClosed = errors.New("stream is closed")
)

// Refusal returns a permanent error that names what to change, if the broker refused for good; nil for all other errors.
func Refusal(err error) error { return broker.Refusal(err) }
