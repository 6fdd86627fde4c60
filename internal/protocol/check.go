package protocol

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/duetime/duetime/internal/rowform"
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

// GroupLabel is the label that each member of a group has: its value is the group's name.
const GroupLabel = rowform.GroupLabel

// LabelRow is one label of a task; a row of duetime_labels.
type LabelRow struct {
	Task        task.ID
	Name, Value string
}

// LabelRows returns the rows of the labels that the spec's task will have, by their names.
func LabelRows(s task.Spec) (rows []LabelRow) {
	labels := s.Labels()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		rows = append(rows, LabelRow{s.ID(), name, labels[name]})
	}
	return rows
}

// LabelsText writes labels as name=value, by name.
func LabelsText(labels map[string]string) string {
	return strings.TrimPrefix(task.Filter{Labels: labels}.String(), "label ")
}

// CheckGroup returns the FieldError of a name that no group can have: it is the value of a label.
func CheckGroup(name string) error {
	if wrong, is := errors.AsType[*task.FieldError](CheckLabel(GroupLabel, name)); is {
		return &task.FieldError{Field: "group", Problem: wrong.Problem}
	}
	return nil
}

// CheckBlanks returns a FieldError for a text with a blank at an end. No text of a task has one, and MySQL's comparison would
// ignore those at the end.
func CheckBlanks(field, text string) error {
	if strings.TrimSpace(text) != text {
		return &task.FieldError{Field: field, Problem: "must not begin or end with a blank"}
	}
	return nil
}
