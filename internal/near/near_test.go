package near_test

import (
	"testing"

	"github.com/duetime/duetime/internal/near"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"due_in": "dueIn", "DUE-IN": "dueIn", "dueInn": "dueIn", "dueI": "dueIn", "deuIn": "dueIn", "dueOn": "dueIn", "owner": "owner",
		"ownre": "owner", "by": "by", "bi": "", "due": "", "when": "", "": "",
	} {
		if got := near.Of(name, []string{"by", "dueIn", "owner"}); got != want {
			t.Errorf("%q is near %q, want %q", name, got, want)
		}
	}
}
