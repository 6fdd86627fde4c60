package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duetime/duetime/internal/rowform"
)

// Filter chooses the tasks of an operation: those that meet all of its fields. A zero field chooses all.
type Filter struct {
	Kind        string    `json:"kind,omitempty"`
	Owner       string    `json:"owner,omitempty"`
	OwnerPrefix string    `json:"owner_prefix,omitempty"` // what the owner begins with
	Queue       string    `json:"queue,omitempty"`
	Subject     string    `json:"subject,omitempty"`
	DueAfter    time.Time `json:"due_after,omitzero"`  // due at this moment or after it
	DueBefore   time.Time `json:"due_before,omitzero"` // due before this moment
	// Labels, by name, are labels that the task has, among others; CheckLabels has their limits.
	Labels     map[string]string `json:"labels,omitempty"`
	IDs        []ID              `json:"ids,omitempty"`        // these tasks, at most MaxPerCall
	DiedBefore time.Time         `json:"died_before,omitzero"` // of VerbRetry and VerbDiscard: dead since a moment before this one
	All        bool              `json:"all,omitempty"`        // every task: without it, a filter that chooses all is refused
	Exclude    Exclusion         `json:"exclude,omitzero"`
}

// Exclusion leaves tasks out of what a filter chooses: those of any of its kinds, and those that have any of its labels.
type Exclusion struct {
	Kinds  []string `json:"kinds,omitempty"`
	Labels []string `json:"labels,omitempty"` // as name=value each; the first = parts them
}

// maxExcluded is how many kinds, and how many labels, an Exclusion may have.
const maxExcluded = 100

// Check returns a FieldError for an exclusion that can't be meant.
func (e Exclusion) Check() error {
	if n := max(len(e.Kinds), len(e.Labels)); n > maxExcluded {
		return &FieldError{"exclude", fmt.Sprintf("must have at most %d kinds and as many labels, and has %d", maxExcluded, n)}
	}
	for _, kind := range e.Kinds {
		if err := checkPlain("exclude.kinds", kind, 1, MaxKind); err != nil {
			return err
		}
	}
	for _, label := range e.Labels {
		name, value, found := strings.Cut(label, "=")
		if !found {
			return &FieldError{"exclude.labels", fmt.Sprintf("must be name=value each, and one is %q", label)}
		}
		if wrong, is := errors.AsType[*FieldError](checkLabel(name, value)); is {
			return &FieldError{"exclude.labels", fmt.Sprintf("%q: %s", label, wrong.Problem)}
		}
	}
	return nil
}

// IsZero reports whether the exclusion leaves nothing out.
func (e Exclusion) IsZero() bool { return len(e.Kinds)+len(e.Labels) == 0 }

// Check returns a FieldError for a filter that can't be meant.
func (f Filter) Check() error {
	for _, text := range []struct {
		field, value string
		limit        int
	}{
		{"kind", f.Kind, MaxKind},
		{"owner", f.Owner, MaxOwner},
		{"owner_prefix", f.OwnerPrefix, MaxOwner},
		{"queue", f.Queue, MaxQueue},
		{"subject", f.Subject, MaxSubject},
	} {
		if len(text.value) > text.limit || !utf8.ValidString(text.value) {
			return &FieldError{text.field, fmt.Sprintf("must be at most %d bytes of valid UTF-8", text.limit)}
		}
		if text.field == "owner_prefix" {
			continue
		}
		if err := checkBlanks(text.field, text.value); err != nil {
			return err
		}
	}
	if err := checkLabels(f.Labels); err != nil {
		return err
	}
	if err := f.Exclude.Check(); err != nil {
		return err
	}
	if n := len(f.IDs); n > MaxPerCall {
		return &FieldError{"ids", fmt.Sprintf("must be at most %d, and are %d", MaxPerCall, n)}
	}
	f.Exclude, f.DiedBefore = Exclusion{}, time.Time{} // they choose nothing by themselves
	fields := f
	fields.All = false
	switch {
	case f.Owner != "" && f.OwnerPrefix != "":
		return &FieldError{"owner_prefix", "must not be set beside owner"}
	case !f.DueAfter.IsZero() && !f.DueBefore.IsZero() && !f.DueAfter.Before(f.DueBefore):
		return &FieldError{"due_before", "must be later than due_after"}
	case f.All && !fields.isZero():
		return &FieldError{"all", "must not be set beside other fields of the filter, but for exclude and died_before"}
	case f.isZero():
		return &FieldError{"filter", "must choose tasks by a field, or say all"}
	}
	return nil
}

func (f Filter) isZero() bool {
	if len(f.Labels) == 0 {
		f.Labels = nil
	}
	if len(f.IDs) == 0 {
		f.IDs = nil
	}
	return reflect.ValueOf(f).IsZero()
}

// String says in words which tasks the filter chooses.
func (f Filter) String() string {
	var parts []string
	if f.All {
		parts = append(parts, "all tasks")
	}
	if n := len(f.IDs); n == 1 {
		parts = append(parts, "task "+f.IDs[0].String())
	} else if n > 1 {
		parts = append(parts, fmt.Sprintf("%d tasks by id", n))
	}
	for _, p := range [][2]string{
		{"kind", f.Kind},
		{"owner", f.Owner},
		{"owner prefix", f.OwnerPrefix},
		{"queue", f.Queue},
		{"subject", f.Subject},
		{"label", labelsText(f.Labels)},
		{"due after", moment(f.DueAfter)},
		{"due before", moment(f.DueBefore)},
		{"died before", moment(f.DiedBefore)},
	} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	for _, kind := range f.Exclude.Kinds {
		parts = append(parts, "without kind "+kind)
	}
	for _, label := range f.Exclude.Labels {
		parts = append(parts, "without label "+label)
	}
	return strings.Join(parts, ", ")
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(rowform.MomentText)
}
