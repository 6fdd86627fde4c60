package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// What bounds an operation is in the column that versions before can't read: they would change more tasks, and pause it instead.
func operationBounded(t *testing.T, s *store.Store) {
	type filterBefore struct {
		Kind        string            `json:"kind"`
		Owner       string            `json:"owner"`
		OwnerPrefix string            `json:"owner_prefix"`
		Queue       string            `json:"queue"`
		Subject     string            `json:"subject"`
		DueAfter    time.Time         `json:"due_after"`
		DueBefore   time.Time         `json:"due_before"`
		Labels      map[string]string `json:"labels"`
		All         bool              `json:"all"`
		Exclude     task.Exclusion    `json:"exclude"`
		Recurrences *bool             `json:"recurrences"`
	}
	for what, o := range map[string]task.Operation{
		"":            {Filter: task.Filter{Kind: "k"}},
		"limit":       {Filter: task.Filter{Kind: "k"}, Limit: 7},
		"ids":         {Filter: task.Filter{IDs: []task.ID{{2}, {1}, {2}}}},
		"died_before": {Filter: task.Filter{Kind: "k", DiedBefore: t0}},
	} {
		o.Verb = task.VerbRetry
		o = operation(t, s, o)
		got, _, err := s.Operation(t.Context(), nil, o.ID)
		if d := cmp.Diff(o, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, d)
		}
		text := value[string](t)(stored(t, s, o))
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&filterBefore{})
		if want := `unknown field "` + what + `"`; (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: a version before reads %s: %v", what, text, err)
		}
	}
}
