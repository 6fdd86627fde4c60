package e2e_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the operator's own client
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestShardsAreChangedWhileEverythingIsStopped follows docs/runbooks/changing-shards.md.
func TestShardsAreChangedWhileEverythingIsStopped(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	own := pipelinetest.OwnRedis(t)
	p.Redis = own.Addr()
	start := func(more ...string) map[string]pipelinetest.App {
		procs := map[string]pipelinetest.App{}
		for _, name := range commands {
			procs[name] = p.Ready(t, name, more...)
		}
		return procs
	}
	procs := start()
	for range 5 {
		play(t, procs["game"].URL(t, "game"), "ann")
		play(t, procs["game"].URL(t, "game"), "bob")
	}
	for _, name := range commands {
		procs[name].Stop(t)
	}

	db, err := sql.Open("mysql", p.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"UPDATE duetime_layout SET shards = 32, shards_ever = GREATEST(shards_ever, 32)",
		"UPDATE duetime_tasks SET shard = CRC32(owner) MOD 32 WHERE state = 0",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	client := redis.NewClient(&redis.Options{Addr: own.Addr()})
	defer func() { _ = client.Close() }()
	pipelinetest.Must(t, client.FlushAll(t.Context()).Err())

	procs = start("DUETIME_SHARDS=32")
	play(t, procs["game"].URL(t, "game"), "ann")
	pipelinetest.Await(t, "the index to be whole", func() bool {
		code, v := p.Verify(t)
		return code == 0 && v.Pending == 11
	})
	for owner, want := range map[string]int{"ann": 6, "bob": 5} {
		pipelinetest.Await(t, fmt.Sprintf("the index to list %s's %d tasks", owner, want), func() bool {
			return listed(t, procs["game"], owner) == want
		})
	}
	if n := procs["event"].Says("shards ignored"); n != 0 {
		t.Error("event takes the new number for a wrong one")
	}
}

// listed counts the owner's tasks as the game lists them from Redis; -1 while it lists them from MySQL.
func listed(t *testing.T, game pipelinetest.App, owner string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, game.URL(t, "game")+"/v1/owners/"+owner+"/tasks", http.NoBody)
	pipelinetest.Must(t, err)
	text := string(answer(t, req, http.StatusOK))
	if !strings.Contains(text, `"source":"redis"`) {
		return -1
	}
	return strings.Count(text, `"task_id"`)
}
