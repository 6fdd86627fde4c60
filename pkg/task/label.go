package task

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/duetime/duetime/internal/rowform"
)

// Limits of labels; beyond them a call is refused with a FieldError and changes nothing.
const (
	maxLabels     = 8  // of one task
	maxLabelName  = 32 // characters
	maxLabelValue = 64 // bytes
)

var labelPattern = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

type label struct{ name, value string }

// Label gives the task a label, by which operators and the service find it: console.Filter.Labels, duetime task list --label. A
// task has up to 8 labels, of different names. A name is a letter a-z and up to 31 characters of a-z 0-9 . _ -; a value is 1 to
// 64 bytes of UTF-8 without control characters, and without blanks at its ends.
//
// Labels are written with a new task and never change: scheduling again by a key or an id leaves the labels of the task that is
// there. A handler does not see them; what it needs belongs into the payload. A label costs a row; tasks without labels cost
// nothing. Tasks of recurrences have none.
func Label(name, value string) Option {
	return func(spec *Spec) {
		spec.labels = append(slices.Clip(spec.labels), label{name, value})
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
	if len(labels) > maxLabels {
		return &FieldError{"labels", fmt.Sprintf("must be at most %d, and are %d", maxLabels, len(labels))}
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := checkLabel(name, labels[name]); err != nil {
			return err
		}
	}
	return nil
}

// labelsText writes labels as name=value, by name.
func labelsText(labels map[string]string) string {
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
		labels[l.name] = l.value
	}
	return labels
}

func (s Spec) checkLabels() error {
	if len(s.labels) == 0 {
		return nil
	}
	if len(s.labels) > maxLabels {
		return &FieldError{"labels", fmt.Sprintf("must be at most %d, and are %d", maxLabels, len(s.labels))}
	}
	names := make(map[string]bool, len(s.labels))
	for _, l := range s.labels {
		if err := checkLabel(l.name, l.value); err != nil {
			return err
		}
		if names[l.name] {
			return &FieldError{"label " + l.name, "must be given once"}
		}
		if l.name == rowform.GroupLabel {
			return &FieldError{"label " + l.name, "must not be given: members of a group have it"}
		}
		names[l.name] = true
	}
	return nil
}
