package transition

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

func sameExclusion(e task.Exclusion, other task.Exclusion) bool {
	return slices.Equal(e.Kinds, other.Kinds) && slices.Equal(e.Labels, other.Labels)
}

// FilterMatches reports whether the filter chooses the task, as far as the row says. A task's labels are rows of their own, which never
// change: the statement that finds the task compares them, also with those to leave out.
func FilterMatches(f task.Filter, t task.Task) bool {
	return chosen(f.Kind, t.Kind) && chosen(f.Owner, t.Owner) && strings.HasPrefix(t.Owner, f.OwnerPrefix) &&
		chosen(f.Queue, t.Queue) && chosen(f.Subject, t.Subject) &&
		!slices.Contains(f.Exclude.Kinds, t.Kind) && !t.DueAt.Before(f.DueAfter) && (f.DueBefore.IsZero() || t.DueAt.Before(f.DueBefore)) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, t.ID)) &&
		(f.DiedBefore.IsZero() || t.State != task.Dead || t.FinishedAt.Before(f.DiedBefore))
}

// SameFilter reports whether both filters choose by the same fields.
func SameFilter(f task.Filter, other task.Filter) bool {
	if !f.DueAfter.Equal(other.DueAfter) || !f.DueBefore.Equal(other.DueBefore) || !maps.Equal(f.Labels, other.Labels) ||
		!sameExclusion(f.Exclude, other.Exclude) || !slices.Equal(f.IDs, other.IDs) || !f.DiedBefore.Equal(other.DiedBefore) {
		return false
	}
	f.DueAfter, f.DueBefore, f.Labels, f.Exclude = other.DueAfter, other.DueBefore, other.Labels, other.Exclude
	f.IDs, f.DiedBefore = other.IDs, other.DiedBefore
	return reflect.DeepEqual(f, other)
}

func chosen(wanted, value string) bool { return wanted == "" || wanted == value }
