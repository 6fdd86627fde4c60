package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/embedded"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

func TestRun(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"SQLite": nil,
		"MySQL":  {"--dsn", pipelinetest.MySQL(t).NewSchema(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			pipelinetest.Must(t, run(t.Context(), args, &out))
			for _, want := range []string{
				"3 players joined", "another one did not: recur daily reward: zone must be a name of the tz database",
				"2 players were rewarded twice and more, 1 report is written",
			} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", out.String(), want)
				}
			}
		})
	}
}

// This is how a service tests its recurring tasks: a week passes without waiting.
func TestWeek(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pipeline, err := embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "rewards.db"), embedded.Config{})
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, pipeline.Close(ctx)) }()
	db := pipeline.DB()
	pipelinetest.Must(t, createTables(ctx, db))
	r := &Rewards{tasks: pipeline.Client, rewardAt: "0 8 * * *", reportAt: "0 9 * * MON"}
	pipelinetest.Must(t, r.Open(ctx))
	for player, zone := range map[string]string{"ann": "Asia/Shanghai", "bob": "America/New_York"} {
		first, err := r.Join(ctx, player, zone)
		pipelinetest.Must(t, err)
		in, err := time.LoadLocation(zone)
		pipelinetest.Must(t, err)
		if first = first.In(in); first.Hour() != 8 || first.Minute() != 0 {
			t.Errorf("the first reward of %s comes at %v", player, first)
		}
	}

	duetimetest.Fire(t, db, r.Handlers(), time.Now().Add(7*24*time.Hour))
	var coins []int
	pipelinetest.Must(t, db.SelectContext(ctx, &coins, "SELECT coins FROM players ORDER BY name"))
	if len(coins) != 2 || coins[0] != 35 || coins[1] != 35 {
		t.Errorf("got coins %v, want 35 for each player", coins)
	}
	var reports int
	pipelinetest.Must(t, db.GetContext(ctx, &reports, "SELECT COUNT(*) FROM reports"))
	if reports != 1 {
		t.Errorf("got %d reports, want 1", reports)
	}
	pipelinetest.Must(t, r.Leave(ctx, "bob"))
	duetimetest.RequireScheduled(t, db, DailyReward, "ann")
	duetimetest.RequireNotScheduled(t, db, DailyReward, "bob")
}
