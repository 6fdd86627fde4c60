package task

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/duetime/duetime/internal/rowform"
)

// Limits of what the pipeline accepts; beyond them a call is refused with a FieldError and changes nothing.
const (
	MaxOwner    = 64                        // bytes
	MaxKind     = 64                        // bytes
	MaxQueue    = 64                        // bytes
	MaxSubject  = 63                        // bytes: a UUID as text and more; the column grew to it without a copy of the table
	MaxKey      = 128                       // bytes
	MaxPayload  = 4 << 10                   // bytes of JSON
	MaxAhead    = 10 * 365 * 24 * time.Hour // how far off a due time may lie
	MaxPerCall  = 1000                      // tasks in one bulk call
	MinTimeout  = 10 * time.Millisecond     // of a kind: the limits of worker.handler_timeout
	MaxTimeout  = time.Hour
	maxAttempts = 1000
	minWindow   = time.Second
)

var (
	kindPattern  = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)
	queuePattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// checkKind holds kinds to letters that are safe in metrics and command lines.
func checkKind(s string) error {
	if len(s) > MaxKind || !kindPattern.MatchString(s) {
		return &FieldError{"kind", fmt.Sprintf("must be 1 to %d characters of A-Z a-z 0-9 . _ : -", MaxKind)}
	}
	return nil
}

// CheckQueue reports whether s can name a queue. It becomes part of a topic's name, and Kafka allows no colon there.
func checkQueue(s string) error {
	if len(s) > MaxQueue || !queuePattern.MatchString(s) {
		return &FieldError{"queue", fmt.Sprintf("must be 1 to %d characters of A-Z a-z 0-9 . _ -", MaxQueue)}
	}
	return nil
}

// CheckOwner reports whether s can own tasks: 1 to 64 bytes of UTF-8 without braces (they would steer Redis Cluster's
// slots), control characters, or blanks at its ends (MySQL's comparison would ignore them).
func CheckOwner(s string) error { return checkText("owner", s, 1, MaxOwner) }

func checkText(field, s string, minBytes, limit int) error {
	if err := checkPlain(field, s, minBytes, limit); err != nil {
		return err
	}
	if strings.ContainsAny(s, "{}") {
		return &FieldError{field, "must not contain { or }"}
	}
	return nil
}

// checkPlain is checkText for a text that may have braces.
func checkPlain(field, s string, minBytes, limit int) error {
	switch {
	case len(s) < minBytes || len(s) > limit:
		return &FieldError{field, fmt.Sprintf("must be %d to %d bytes", minBytes, limit)}
	case !utf8.ValidString(s):
		return &FieldError{field, "must be valid UTF-8"}
	}
	if err := checkBlanks(field, s); err != nil {
		return err
	}
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return &FieldError{field, "must not contain control characters"}
	}
	return nil
}

// CheckBlanks returns a FieldError for a text with a blank at an end. No text of a task has one, and MySQL's comparison would
// ignore those at the end.
func checkBlanks(field, text string) error {
	if strings.TrimSpace(text) != text {
		return &FieldError{field, "must not begin or end with a blank"}
	}
	return nil
}

// clampDue brings a due time into [now, now+MaxAhead]: the past means now, too far is refused.
func clampDue(due, now time.Time) (time.Time, error) {
	due = rowform.CeilMs(due)
	if due.After(now.Add(MaxAhead)) || due.UnixMilli() > rowform.MaxUnixMs {
		return time.Time{}, &FieldError{"due", "must lie within 10 years, and before September 2039"}
	}
	if due.Before(now) {
		return now, nil
	}
	return due, nil
}
