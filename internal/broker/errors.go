package broker

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/trust"
)

var (
	// ErrSessionOver says that the generation of a session has ended: nothing more can be fetched or committed in it.
	ErrSessionOver = errors.New("session is over")
	// ErrOutcomeUnknown says that no answer came in time: the message may be in the log, or be appended later.
	ErrOutcomeUnknown = errors.New("outcome unknown")

	// errNotAnswered says that the broker's answer lacks a partition of the request.
	errNotAnswered = errors.New("the broker's answer lacks the partition")
)

// permanentError marks an error that a retry can't fix.
type permanentError struct{ err error }

// Error returns the cause's text.
func (e *permanentError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *permanentError) Unwrap() error { return e.err }

// Permanent tells callers that a retry can't help.
func (e *permanentError) Permanent() bool { return true }

// Permanent marks an error as one that a retry can't fix: it has the method Permanent() bool.
func Permanent(err error) error { return &permanentError{err} }

// IsPermanent reports whether err, or an error in its chain, was marked as permanent.
func IsPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// Refusal returns a permanent error that names what to change, if the broker refused for good; nil for all other errors.
func Refusal(err error) error {
	_, named := errors.AsType[*trust.Refusal](err)
	switch {
	case named:
		return err
	case errors.Is(err, kafka.InvalidSessionTimeout):
		return Permanent(fmt.Errorf("kafka.session_timeout is outside the broker's group.min.session.timeout.ms and "+
			"group.max.session.timeout.ms: %w", err))
	case trust.Refused(err):
		return &trust.Refusal{Key: "kafka.tls.ca_file", Err: err}
	case errors.Is(err, kafka.SASLAuthenticationFailed), errors.Is(err, kafka.UnsupportedSASLMechanism),
		errors.Is(err, kafka.IllegalSASLState):
		return &trust.Refusal{Key: "kafka.sasl.username or kafka.sasl.password", Err: err}
	case errors.Is(err, kafka.TopicAuthorizationFailed), errors.Is(err, kafka.GroupAuthorizationFailed),
		errors.Is(err, kafka.ClusterAuthorizationFailed):
		return Permanent(fmt.Errorf("kafka.sasl.username: access is refused: %w", err))
	case errors.Is(err, kafka.InvalidTopic), errors.Is(err, kafka.InvalidGroupId):
		return Permanent(fmt.Errorf("namespace or queues: the broker refuses the name: %w", err))
	}
	return nil
}

// sessionOver translates the answers to a commit of a generation once a newer one stands.
func sessionOver(err error) error {
	if errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) {
		return fmt.Errorf("%w: %w", ErrSessionOver, err)
	}
	return err
}
