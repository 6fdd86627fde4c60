package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
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
			pipelinetest.Must(t, run(t.Context(), append(args, "--pay-within=8s"), &out))
			for _, want := range []string{
				"order 2 paid too late: the order has expired",
				"0  customer-0  expired", "1  customer-1  paid", "2  customer-2  expired", "3  customer-3  paid", "4  customer-4  expired",
			} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", out.String(), want)
				}
			}
		})
	}
}

// This is how a service tests its tasks: on its own database, without waiting.
func TestUnpaidOrderExpires(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pipeline, err := embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "orders.db"), embedded.Config{})
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, pipeline.Close(ctx)) }()
	db := pipeline.DB()
	pipelinetest.Must(t, createTable(ctx, db.DB))
	shop := &Shop{db: db.DB, tasks: pipeline.Client, paymentTimeout: 10 * time.Minute}

	pipelinetest.Must(t, shop.Place(ctx, 1, "ada"))
	pipelinetest.Must(t, shop.Place(ctx, 2, "ada"))
	duetimetest.RequireScheduled(t, db, OrderExpire, "ada",
		duetimetest.Payload(Expire{Order: 2}), duetimetest.DueIn(10*time.Minute, time.Minute))

	pipelinetest.Must(t, shop.Pay(ctx, 2))
	duetimetest.RequireNotScheduled(t, db, OrderExpire, "ada", duetimetest.Subject("2"))

	if fired := duetimetest.Fire(t, db, shop.Handlers(), time.Now().Add(9*time.Minute)); len(fired) != 0 {
		t.Errorf("got %d tasks fired in 9 minutes, want none", len(fired))
	}
	fired := duetimetest.Fire(t, db, shop.Handlers(), time.Now().Add(11*time.Minute))
	if len(fired) != 1 || fired[0].State != task.Done || fired[0].Subject != "1" {
		t.Errorf("got %v fired, want the end of order 1", fired)
	}
	if err := shop.Pay(ctx, 1); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v for a late payment, want %v", err, ErrExpired)
	}
	if err := shop.Pay(ctx, 3); !errors.Is(err, ErrNoOrder) {
		t.Errorf("got %v for an unknown order, want %v", err, ErrNoOrder)
	}
}
