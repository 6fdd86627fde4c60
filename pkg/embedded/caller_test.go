package embedded_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// execer runs a service's statements: its own handle, the pipeline's, or a transaction of either.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// aMoment is the time that the service writes into its own columns.
var aMoment = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

// seen is a row of moments, as the server holds it and as the service reads it.
type seen struct {
	Zone, Now, Date, Stamp string
	ReadDate, ReadStamp    time.Time
	Same, Missing          int64 // rows affected by an UPDATE that changes nothing, and by one that matches no row
}

// write writes a row of moments, and look reads it on another handle.
func write(ctx context.Context, q execer, via string) error {
	_, err := q.ExecContext(ctx, `INSERT INTO moments (via, a_date, a_stamp, zone, said) VALUES (?, ?, ?,
		TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW()), NOW())`, via, aMoment, aMoment)
	return err
}

func look(ctx context.Context, q execer, via string) (s seen, err error) {
	const row = " FROM moments WHERE via = ?"
	err = q.QueryRowContext(ctx, "SELECT zone, IF(ABS(TIMESTAMPDIFF(MINUTE, said, NOW())) < 5, 'now', said), CAST(a_date AS CHAR), "+
		"CAST(UNIX_TIMESTAMP(a_stamp) AS CHAR), a_date, a_stamp"+row, via).
		Scan(&s.Zone, &s.Now, &s.Date, &s.Stamp, &s.ReadDate, &s.ReadStamp)
	if err != nil {
		return s, fmt.Errorf("read what went by way of %s: %w", via, err)
	}
	s.ReadDate, s.ReadStamp = s.ReadDate.UTC(), s.ReadStamp.UTC()
	for _, update := range []struct {
		to  *int64
		via string
	}{{&s.Same, via}, {&s.Missing, "nothing"}} {
		r, err := q.ExecContext(ctx, "UPDATE moments SET zone = zone WHERE via = ?", update.via)
		if err != nil {
			return s, err
		}
		if *update.to, err = r.RowsAffected(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// A service writes and reads the same through the pipeline as through its own handle with the same DSN. Zones, and ways
// of counting rows, of the DSN and the server don't matter.
func TestCallersParametersHold(t *testing.T) {
	t.Parallel()
	here := pipelinetest.MySQL(t)
	elsewhere, err := pipelinetest.StartMySQL("", "--default-time-zone=+05:30")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, elsewhere.Kill()) })
	for name, test := range map[string]struct {
		server     *pipelinetest.MySQLServer
		parameters string
	}{
		"nothing said":             {here, "parseTime=true"},
		"a local zone":             {here, "parseTime=true&loc=Asia%2FShanghai"},
		"a local zone and session": {here, "parseTime=true&loc=Asia%2FShanghai&time_zone=%27%2B08%3A00%27"},
		"a session's zone":         {here, "parseTime=true&time_zone=%27-03%3A30%27"},
		"rows found":               {here, "parseTime=true&clientFoundRows=true"},
		"all at once": {here, "parseTime=true&clientFoundRows=true&multiStatements=true&loc=America%2FSt_Johns&time_zone=%27%2B08%3A00%27" +
			"&charset=utf8mb4&collation=utf8mb4_unicode_ci&innodb_lock_wait_timeout=7"},
		"a server elsewhere":     {elsewhere, "parseTime=true"},
		"a server and its zone":  {elsewhere, "parseTime=true&loc=Asia%2FKolkata"},
		"another zone than that": {elsewhere, "parseTime=true&loc=Asia%2FShanghai&time_zone=%27%2B08%3A00%27"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asOnAHandleOfItsOwn(t, test.server.NewSchema(t)+"?"+test.parameters)
		})
	}
}

func asOnAHandleOfItsOwn(t *testing.T, dsn string) {
	t.Helper()
	ctx := t.Context()
	own, err := sql.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = own.Close() })
	_, err = own.ExecContext(ctx, `CREATE TABLE moments (via VARCHAR(32) PRIMARY KEY, a_date DATETIME(3), a_stamp TIMESTAMP(3) NULL,
		zone VARCHAR(8), said DATETIME)`)
	pipelinetest.Must(t, err)
	p, err := embedded.OpenMySQL(ctx, dsn, embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })

	pipelinetest.Must(t, write(ctx, own, "its own"))
	pipelinetest.Must(t, write(ctx, p.DB(), "the handle"))
	pipelinetest.Must(t, p.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.Schedule(ctx, ring.New("ann", note{}, task.In(0)))
		if err != nil {
			return err
		}
		return write(ctx, tx, "a transaction")
	}))
	handled := make(chan seen, 1)
	mux := worker.NewMux()
	worker.Handle(mux, ring, func(ctx context.Context, tx *worker.Tx, _ worker.Task[note]) error {
		if err := write(ctx, tx, "a handler"); err != nil {
			return err
		}
		s, err := look(ctx, tx, "its own")
		if err == nil {
			handled <- s
		}
		return err
	})
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Work(working, mux) }()

	want, err := look(ctx, own, "its own")
	pipelinetest.Must(t, err)
	same := func(what string, got seen, err error) {
		t.Helper()
		pipelinetest.Must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want as on its own handle +got):\n%s", what, diff)
		}
	}
	select {
	case got := <-handled:
		same("read in a handler", got, nil)
	case err := <-ended:
		t.Fatalf("Work ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the handler has not run within a minute")
	}
	stop()
	pipelinetest.Must(t, <-ended)
	for _, via := range []string{"the handle", "a transaction", "a handler"} {
		got, err := look(ctx, own, via)
		same("written by way of "+via, got, err)
	}
	got, err := look(ctx, p.DB(), "its own")
	same("read on the handle", got, err)
	pipelinetest.Must(t, p.InTx(ctx, func(tx *schedule.Tx) error {
		got, err = look(ctx, tx, "its own")
		return err
	}))
	same("read in a transaction", got, nil)
}

// A parameter with which duetime can't work is refused by its name, and one without effect is logged.
func TestOtherParametersAreRefusedOrTold(t *testing.T) {
	t.Parallel()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	for parameter, want := range map[string]string{
		"transaction_isolation=%27SERIALIZABLE%27": "transaction_isolation",
		"charset=latin1": "charset",
		"autocommit=0":   "autocommit",
	} {
		p, err := embedded.OpenMySQL(t.Context(), dsn+"?"+parameter, embedded.Config{})
		if err == nil {
			pipelinetest.Must(t, p.Close(t.Context()))
		}
		if err == nil || !strings.Contains(err.Error(), "parameter "+want) {
			t.Errorf("%s: got %v, want an error that names %s", parameter, err, want)
		}
	}
	var log strings.Builder
	p, err := embedded.OpenMySQL(t.Context(), dsn+"?innodb_lock_wait_timeout=7&interpolateParams=false",
		embedded.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, p.Close(t.Context()))
	for _, want := range []string{"configured=innodb_lock_wait_timeout", "configured=interpolateParams"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log says\n%s\nwant %s", log.String(), want)
		}
	}
}
