package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/duetime/duetime/pkg/schedule"
)

// An operator learns that a change may have been made.
func TestLostCommitIsExplained(t *testing.T) {
	t.Parallel()
	said := explained(fmt.Errorf("retry: %w: broken pipe", schedule.ErrCommitUnknown))
	if !strings.Contains(said, "may have been made") {
		t.Errorf("the tool says %q", said)
	}
}
