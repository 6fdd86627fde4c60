package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestShardsAreChangedWhileEverythingRuns follows docs/runbooks/changing-shards.md: it grows, turns round, and shrinks.
func TestShardsAreChangedWhileEverythingRuns(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	procs := map[string]pipelinetest.App{}
	for _, name := range commands {
		procs[name] = p.Ready(t, name)
	}
	tasks := map[string]int{}
	feed := func() {
		for i := range 8 {
			owner := fmt.Sprint("owner-", i)
			play(t, procs["game"].URL(t, "game"), owner)
			tasks[owner]++
		}
	}
	whole := func(when string) {
		t.Helper()
		for owner, want := range tasks {
			if n := listedAnywhere(t, procs["game"], owner); n != want {
				t.Errorf("%s: %d tasks of %s are listed, want %d", when, n, owner, want)
			}
		}
	}
	shard := func(want int, args ...string) string {
		t.Helper()
		code, out := p.Duetime(t, append([]string{"shard"}, args...)...)
		if code != want {
			t.Fatalf("shard %v: exit code %d, want %d; said %s", args, code, want, out)
		}
		return out
	}
	over := func(when string) {
		t.Helper()
		pipelinetest.Await(t, when+": the change to be over", func() bool {
			whole(when)
			return !strings.Contains(shard(0, "stat"), "moving")
		})
		pipelinetest.Await(t, when+": the index to be whole", func() bool {
			code, _ := p.Verify(t)
			return code == 0
		})
		for owner, want := range tasks {
			pipelinetest.Await(t, fmt.Sprintf("%s: the index to list %s's %d tasks", when, owner, want), func() bool {
				return listed(t, procs["game"], owner) == want
			})
		}
	}
	feed()
	shard(1, "grow", "16", "--yes")
	shard(1, "grow", "8", "--yes")
	shard(1, "shrink", "0", "--yes")
	shard(1, "grow", "--pause")
	shard(0, "grow", "64", "--yes")
	shard(1, "grow", "32", "--yes")
	if out := shard(0, "grow", "64", "--yes"); !strings.Contains(out, "is going on already") {
		t.Errorf("the same change again: said %s", out)
	}
	feed()
	over("grown")
	feed()
	whole("after the growth")

	shard(0, "shrink", "3", "--yes")
	shard(0, "shrink", "--pause")
	if out := shard(0, "stat"); !strings.Contains(out, "moving 64 → 3, paused") {
		t.Errorf("stat of a paused change: %s", out)
	}
	feed()
	whole("paused")
	shard(0, "shrink", "--resume")
	shard(0, "shrink", "--cancel", "--yes")
	feed()
	over("cancelled")

	shard(0, "shrink", "3", "--yes")
	feed()
	over("shrunk")
}

// listedAnywhere counts the owner's tasks as the game lists them, from Redis or MySQL.
func listedAnywhere(t *testing.T, game pipelinetest.App, owner string) int {
	t.Helper()
	return strings.Count(ownersList(t, game, owner), `"task_id"`)
}

// listed counts the owner's tasks as the game lists them from Redis; -1 while it lists them from MySQL.
func listed(t *testing.T, game pipelinetest.App, owner string) int {
	t.Helper()
	text := ownersList(t, game, owner)
	if !strings.Contains(text, `"source":"redis"`) {
		return -1
	}
	return strings.Count(text, `"task_id"`)
}

func ownersList(t *testing.T, game pipelinetest.App, owner string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, game.URL(t, "game")+"/v1/owners/"+owner+"/tasks", http.NoBody)
	pipelinetest.Must(t, err)
	return string(answer(t, req, http.StatusOK))
}
