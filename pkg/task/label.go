package task

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Limits of labels; beyond them a call is refused with a FieldError and changes nothing.
const (
	MaxLabels     = 8  // of one task
	maxLabelName  = 32 // characters
	maxLabelValue = 64 // bytes
)

var labelPattern = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

// LabelRow is one label of a task; a row of duetime_labels.
type LabelRow struct {
	Task        ID
	Name, Value string
}

// Label gives the task a label, by which operators and the service find it: console.Filter.Labels, duetime task list --label. A
// task has up to 8 labels, of different names. A name is a letter a-z and up to 31 characters of a-z 0-9 . _ -; a value is 1 to
// 64 bytes of UTF-8 without control characters, and without blanks at its ends.
//
// Labels are written with a new task and never change: scheduling again by a key or an id leaves the labels of the task that is
// there. A handler does not see them; what it needs belongs into the payload. A label costs a row; tasks without labels cost
// nothing. Tasks of recurrences have none.
func Label(name, value string) Option {
	return func(spec *Spec) {
		spec.labels = append(slices.Clip(spec.labels), LabelRow{Name: name, Value: value})
	}
}

// CheckLabel returns a FieldError for a label whose name or value is outside the limits.
func checkLabel(name, value string) error {
	if len(name) > maxLabelName || !labelPattern.MatchString(name) {
		return &FieldError{"label", fmt.Sprintf("%q must have a name of 1 to %d characters of a-z 0-9 . _ -, the first a letter",
			name, maxLabelName)}
	}
	return checkPlain("label "+name, value, 1, maxLabelValue)
}

// CheckLabels is CheckLabel for a filter's labels.
func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return &FieldError{"labels", fmt.Sprintf("must be at most %d, and are %d", MaxLabels, len(labels))}
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := checkLabel(name, labels[name]); err != nil {
			return err
		}
	}
	return nil
}

// LabelsText writes labels as name=value, by name.
func LabelsText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, " ")
}

// Labels returns the labels that the task will have; nil if it will have none.
func (s Spec) Labels() map[string]string {
	if len(s.labels) == 0 {
		return nil
	}
	labels := make(map[string]string, len(s.labels))
	for _, l := range s.labels {
		labels[l.Name] = l.Value
	}
	return labels
}

// LabelRows returns the rows of the task's labels, in the order in which they were given.
func (s Spec) LabelRows() []LabelRow {
	rows := slices.Clone(s.labels)
	for i := range rows {
		rows[i].Task = s.row.ID
	}
	return rows
}

func (s Spec) checkLabels() error {
	if len(s.labels) == 0 {
		return nil
	}
	if len(s.labels) > MaxLabels {
		return &FieldError{"labels", fmt.Sprintf("must be at most %d, and are %d", MaxLabels, len(s.labels))}
	}
	names := make(map[string]bool, len(s.labels))
	for _, l := range s.labels {
		if err := checkLabel(l.Name, l.Value); err != nil {
			return err
		}
		if names[l.Name] {
			return &FieldError{"label " + l.Name, "must be given once"}
		}
		names[l.Name] = true
	}
	return nil
}
