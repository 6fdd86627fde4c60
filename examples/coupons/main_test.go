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
			pipelinetest.Must(t, run(t.Context(), append(args, "--in=10s"), &out))
			for _, want := range []string{
				"300 coupons handed out", "30 reminders taken back", "reminded of 270 of 270", "reminded twice: 0",
			} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", out.String(), want)
				}
			}
		})
	}
}

// This is how a service tests its tasks: on its own database, without waiting.
func TestReminders(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pipeline, err := embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "coupons.db"), embedded.Config{})
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, pipeline.Close(ctx)) }()
	db := pipeline.DB()
	pipelinetest.Must(t, createTable(ctx, db))
	var calls []int
	c := &Coupons{tasks: pipeline.Client, before: 24 * time.Hour, called: func(n int) { calls = append(calls, n) }}

	now := time.Now()
	ends := now.Add(72 * time.Hour).UnixMilli()
	coupons := []Coupon{
		{ID: 1, Owner: "ada", EndsMs: ends}, {ID: 2, Owner: "ada", EndsMs: ends}, {ID: 3, Owner: "bob", EndsMs: ends}, {ID: 4, Owner: "cyd", EndsMs: ends},
	}
	pipelinetest.Must(t, c.Grant(ctx, coupons))
	pipelinetest.Must(t, c.Extend(ctx, coupons[1], 24*time.Hour))
	if n, err := c.Leave(ctx, "cyd"); err != nil || n != 1 {
		t.Errorf("got %d reminders taken back, and %v, want 1", n, err)
	}
	duetimetest.RequireScheduled(t, db, CouponRemind, "ada",
		duetimetest.Subject("2"), duetimetest.DueIn(72*time.Hour, time.Minute))
	duetimetest.RequireNotScheduled(t, db, CouponRemind, "cyd")

	duetimetest.Fire(t, db, c.Handlers(), now.Add(100*time.Hour))
	if len(calls) != 2 || calls[0] != 2 || calls[1] != 1 {
		t.Errorf("got calls of %v reminders, want 2 and then the extended one", calls)
	}
	var reminded []int
	pipelinetest.Must(t, db.SelectContext(ctx, &reminded, "SELECT reminded FROM coupons ORDER BY id"))
	if len(reminded) != 3 || reminded[0]*reminded[1]*reminded[2] != 1 {
		t.Errorf("got %v, want each reminded of once", reminded)
	}
}
