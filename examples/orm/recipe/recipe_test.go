package recipe

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/worker"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

// Each recipe keeps a note and its end together: in InTx, in a handler, and in a transaction of the library's own.
func TestRecipes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := pipelinetest.MySQL(t).NewSchema(t) + "?parseTime=true&loc=Asia%2FShanghai" +
		"&" + pipelinetest.IsolationVariable(t) + "=%27READ-COMMITTED%27" // for Join
	own, err := sql.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = own.Close() })
	_, err = own.ExecContext(ctx, "CREATE TABLE notes (id BIGINT PRIMARY KEY, text VARCHAR(64) NOT NULL, ends_at DATETIME(3) NOT NULL)")
	pipelinetest.Must(t, err)
	pipeline, err := embedded.OpenMySQL(ctx, dsn, embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, pipeline.Close(context.Background())) })

	ends := time.Now().Add(time.Hour)
	db := bun.NewDB(own, mysqldialect.New(mysqldialect.WithTimeLocation("Asia/Shanghai"))) // bun writes times itself
	pipelinetest.Must(t, BunWrite(ctx, db, pipeline.Client, Note{ID: 1, Text: "by bun", EndsAt: ends}))
	pipelinetest.Must(t, BunJoin(ctx, db, pipeline.Client, Note{ID: 2, Text: "in bun's own", EndsAt: ends}))
	pipelinetest.Must(t, EntWrite(ctx, pipeline.Client, Note{ID: 3, Text: "by ent", EndsAt: ends}))

	var n int
	pipelinetest.Must(t, own.QueryRowContext(ctx, "SELECT COUNT(*) FROM notes WHERE ends_at BETWEEN ? AND ?",
		ends.Add(-time.Second), ends.Add(time.Second)).Scan(&n))
	if n != 3 {
		t.Errorf("%d notes end at their time, want 3", n)
	}
	mux := worker.NewMux()
	worker.Handle(mux, NoteEnd, BunHandler(db))
	worker.Handle(mux, NoteFade, EntHandler)
	if fired := duetimetest.Fire(t, pipeline.DB(), mux, ends.Add(time.Minute)); len(fired) != 3 {
		t.Errorf("%d tasks fired, want 3", len(fired))
	}
	pipelinetest.Must(t, own.QueryRowContext(ctx, "SELECT COUNT(*) FROM notes").Scan(&n))
	if n != 0 {
		t.Errorf("%d notes are left, want none", n)
	}
}
