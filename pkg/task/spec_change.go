package task

import (
	"encoding/json"
	"fmt"
	"slices"
)

// What a function sees of a spec, and may change in it, before the spec is scheduled: see schedule.SpecFunc. The kind stays.

// Owner returns whom the task will belong to.
func (s Spec) Owner() string { return s.row.Owner }

// Subject returns what the task will be about; empty for nothing.
func (s Spec) Subject() string { return s.row.Subject }

// Payload returns the task's payload as JSON, as its kind's codec encoded it; nil if it could not be encoded.
func (s Spec) Payload() json.RawMessage { return slices.Clone(s.row.Payload) }

// Key returns the key by which the task is unique, as Mode says; empty without one.
func (s Spec) Key() string { return s.key }

// IsRecurring reports whether the spec is of a recurrence (Kind.Recurring). Such a spec takes no key, no label and no due time.
func (s Spec) IsRecurring() bool { return s.recurring }

// With returns the spec with further options. A spec that has a key can't be given another one.
func (s Spec) With(opts ...Option) Spec {
	for _, o := range opts {
		o(&s)
	}
	return s
}

// WithPayload returns the spec with another payload, which must have the JSON that its kind decodes.
func (s Spec) WithPayload(payload any) Spec {
	s.row.Payload, s.err = json.Marshal(payload)
	if s.err != nil {
		s.err = &FieldError{"payload", "must be encodable as JSON: " + s.err.Error()}
	} else if s.kind.Codec != nil {
		s.row.Payload, s.err = s.kind.Codec.Encode(s.kind.Name, s.row.Owner, s.row.Payload)
	}
	return s
}

// Under returns the spec under another of its kind's names (Was), for a task or a recurrence that has the name already. The payload is
// encoded for that name.
func (s Spec) Under(name string) Spec {
	if s.err != nil || name == s.kind.Name {
		return s
	}
	payload, err := s.kind.Payload(Task{Kind: s.kind.Name, Owner: s.row.Owner, Payload: s.row.Payload})
	s.kind.Was = slices.DeleteFunc(s.kind.Names(), func(n string) bool { return n == name })
	s.kind.Name = name
	if err != nil {
		s.err = fmt.Errorf("decode payload of %s: %w", s.row.ID, err)
		return s
	}
	return s.WithPayload(json.RawMessage(payload))
}

// WithWhen returns the spec with another due time.
func (s Spec) WithWhen(when When) Spec {
	s.when = when
	return s
}
