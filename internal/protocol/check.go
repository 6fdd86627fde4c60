package protocol

import (
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

// CheckKind returns the FieldError of a name that no kind can have.
func CheckKind(name string) error {
	return task.KindInfo{Name: name, Queue: "default", MaxAttempts: 1}.Check()
}

// CheckQueue returns the FieldError of a name that no queue can have. The name becomes part of a topic's name, and Kafka allows
// no colon there.
func CheckQueue(name string) error {
	return task.KindInfo{Name: "any", Queue: name, MaxAttempts: 1}.Check()
}

// CheckLabel returns the FieldError of a label whose name or value is outside the limits.
func CheckLabel(name, value string) error { return CheckLabels(map[string]string{name: value}) }

// CheckLabels is CheckLabel for a filter's labels.
func CheckLabels(labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	return task.Filter{Labels: labels}.Check()
}

// CheckBlanks returns a FieldError for a text with a blank at an end. No text of a task has one, and MySQL's comparison would
// ignore those at the end.
func CheckBlanks(field, text string) error {
	if strings.TrimSpace(text) != text {
		return &task.FieldError{Field: field, Problem: "must not begin or end with a blank"}
	}
	return nil
}
