package theatre

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	_ "time/tzdata"

	"github.com/duetime/duetime/examples/sqlc/query"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/embedded"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

func TestTheatre(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := pipelinetest.MySQL(t).NewSchema(t) + "?parseTime=true&loc=America%2FSt_Johns&time_zone=%27-03:30%27"
	db, err := sql.Open("mysql", dsn) // the theatre's own handle
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	schema, err := os.ReadFile("schema.sql")
	pipelinetest.Must(t, err)
	for statement := range strings.SplitSeq(strings.TrimSpace(string(schema)), ";\n\n") {
		_, err := db.ExecContext(ctx, strings.TrimSuffix(statement, ";"))
		pipelinetest.Must(t, err)
	}
	_, err = db.ExecContext(ctx, "INSERT INTO seats (id) VALUES (1), (2)")
	pipelinetest.Must(t, err)
	pipeline, err := embedded.OpenMySQL(ctx, dsn, embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, pipeline.Close(context.Background())) })
	theatre := New(pipeline.Client, 10*time.Minute)

	until, err := theatre.Hold(ctx, 1, "ada")
	pipelinetest.Must(t, err)
	_, err = theatre.Hold(ctx, 2, "ada") // is subscribed already
	pipelinetest.Must(t, err)
	if _, err := theatre.Hold(ctx, 1, "bob"); !errors.Is(err, ErrTaken) {
		t.Errorf("got %v for a taken seat, want %v", err, ErrTaken)
	}
	seat, err := query.New(db).GetSeat(ctx, 1)
	pipelinetest.Must(t, err)
	if !seat.HeldUntil.Time.Equal(until) {
		t.Errorf("the seat is held until %v, want %v", seat.HeldUntil.Time, until)
	}
	var text string
	pipelinetest.Must(t, db.QueryRowContext(ctx, "SELECT CAST(held_until AS CHAR) FROM seats WHERE id = 1").Scan(&text))
	zone, err := time.LoadLocation("America/St_Johns")
	pipelinetest.Must(t, err)
	if want := until.In(zone).Format("2006-01-02 15:04:05.000"); text != want {
		t.Errorf("the column says %s, want %s, the theatre's time", text, want)
	}
	duetimetest.RequireNotScheduled(t, pipeline.DB(), SeatRelease, "bob")

	if fired := duetimetest.Fire(t, pipeline.DB(), theatre.Handlers(), time.Now().Add(11*time.Minute)); len(fired) != 2 {
		t.Errorf("got %d tasks fired, want the releases of both seats", len(fired))
	}
	if seat, err = query.New(db).GetSeat(ctx, 1); err != nil || seat.Guest.Valid || !seat.ReleaseID.IsZero() {
		t.Errorf("the seat is %+v, %v, want a free one", seat, err)
	}
}
