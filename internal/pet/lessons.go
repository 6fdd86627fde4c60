package pet

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Worker is who ends meals: a process, or a part of this one.
type Worker struct {
	Name  string `json:"name"`
	Alive bool   `json:"alive"`
}

// Lessons are what the page does to the deployment itself, to show that no meal is lost by it. The page offers what is not nil.
type Lessons struct {
	Workers func() []Worker                           // that Kill can kill
	Kill    func(ctx context.Context) (string, error) // one of them, whose name it returns, without a warning; "" if none is alive
	Flush   func(ctx context.Context) (int64, error)  // Redis, and returns how many keys it had
}

// Teach adds what the page shows and does beside the game: the now line, the judge, and the lessons. The judge reads the
// database by a handle, and kept is for how long it keeps the rows of ended tasks.
func (a *API) Teach(db *sqlx.DB, kept time.Duration, l Lessons) {
	a.lessons, a.judge = l, judge{api: a, db: db, kept: kept}
	a.mux.HandleFunc("GET /v1/now", a.now)
	a.mux.HandleFunc("GET /v1/judge", a.judged)
	// No page of another site may do it.
	same := http.NewCrossOriginProtection().Handler
	if l.Kill != nil {
		a.mux.Handle("POST /v1/lessons/kill", same(http.HandlerFunc(a.kill)))
	}
	if l.Flush != nil {
		a.mux.Handle("POST /v1/lessons/flush", same(http.HandlerFunc(a.flush)))
	}
}

// Limits of a now line: its width in px, and the lines of the journal that it goes by.
const (
	defaultLineWidth = 1100
	minLineWidth     = 280
	maxLineWidth     = 4000
	linesForNow      = 1000
)

// moment is the answer to GET /v1/now.
type moment struct {
	NowMs   int64    `json:"now_ms"` // of the database
	Line    string   `json:"line"`   // SVG
	Ended   []ended  `json:"ended"`  // the last end of a meal of each pet
	Workers []Worker `json:"workers,omitempty"`
	Kill    bool     `json:"kill"` // whether the page may kill a worker
	Flush   bool     `json:"flush"`
}

// now answers with the now line.
func (a *API) now(w http.ResponseWriter, r *http.Request) {
	width := defaultLineWidth
	if text := r.URL.Query().Get("width"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < minLineWidth || n > maxLineWidth {
			a.fail(w, r, invalid("width", "must be a number from "+strconv.Itoa(minLineWidth)+" to "+strconv.Itoa(maxLineWidth)))
			return
		}
		width = n
	}
	a.listed(func(ctx context.Context, tx *schedule.Tx, owner string, _ int) (any, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		pets, err := a.game.List(ctx, tx, owner, maxList)
		if err != nil {
			return nil, err
		}
		lines, err := a.game.tables.lines(ctx, tx, owner, linesForNow)
		if err != nil {
			return nil, err
		}
		ends := endsIn(lines)
		m := moment{
			NowMs: now.UnixMilli(), Line: drawNow(now, a.game.rules().Meal, width, pets, ends), Ended: []ended{},
			Kill: a.lessons.Kill != nil, Flush: a.lessons.Flush != nil,
		}
		seen := map[string]bool{}
		for _, e := range ends {
			if !seen[e.PetID] {
				seen[e.PetID] = true
				m.Ended = append(m.Ended, e)
			}
		}
		if a.lessons.Workers != nil {
			m.Workers = a.lessons.Workers()
		}
		return m, nil
	})(w, r)
}

func (a *API) kill(w http.ResponseWriter, r *http.Request) {
	name, err := a.lessons.Kill(r.Context())
	if err == nil && name == "" {
		err = rule{"no_worker", "no worker is alive"}
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.logger.InfoContext(r.Context(), "worker killed for a lesson", "worker", name)
	out := struct {
		Killed  string   `json:"killed"`
		Workers []Worker `json:"workers"`
	}{name, a.lessons.Workers()}
	a.write(w, answer{http.StatusOK, encode(out)})
}

func (a *API) flush(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
	defer cancel()
	n, err := a.lessons.Flush(ctx)
	if err != nil {
		a.logger.WarnContext(ctx, "redis not flushed for a lesson", "err", err)
		a.fail(w, r, failure{http.StatusServiceUnavailable, "unavailable", "Redis did not answer, try again", ""})
		return
	}
	a.write(w, answer{http.StatusOK, encode(struct {
		Keys int64 `json:"keys"`
	}{n})})
}

// judge audits the journal, seldom enough that looking at the page costs little.
type judge struct {
	api  *API
	db   *sqlx.DB
	kept time.Duration

	mu        sync.Mutex // held during an audit
	last      verdict
	err       error     // of the last audit
	nextAudit time.Time // before it, last and err stand
}

// verdict is the answer to GET /v1/judge.
type verdict struct {
	Meals   int64 `json:"meals"` // that were eaten
	Lost    int64 `json:"lost"`
	Doubled int64 `json:"doubled"`
	Early   int64 `json:"early"`
	AtMs    int64 `json:"at_ms"` // of the audit, by this machine's clock
}

// An audit reads the whole journal: the next one waits for auditsApart times as long as it took, and at least minAuditInterval.
const (
	auditsApart      = 20
	minAuditInterval = time.Second
)

func (j *judge) verdict(ctx context.Context) (verdict, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if began := time.Now(); began.After(j.nextAudit) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeLimit) // it is for others too, if this caller leaves
		defer cancel()
		j.last, j.err = j.audit(ctx)
		j.nextAudit = time.Now().Add(max(minAuditInterval, auditsApart*time.Since(began)))
	}
	return j.last, j.err
}

func (j *judge) audit(ctx context.Context) (verdict, error) {
	at := time.Now()
	found, err := Audit(ctx, j.db, j.kept, j.tasks)
	if err != nil {
		return verdict{}, err
	}
	events, err := Events(ctx, j.db)
	return verdict{Meals: events.Finished, Lost: found.Lost, Doubled: found.Duplicate, Early: found.Early, AtMs: at.UnixMilli()}, err
}

func (j *judge) tasks(ctx context.Context, ids []task.ID) (found []task.Task, err error) {
	err = j.api.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		found, err = tx.GetMany(ctx, ids)
		return err
	})
	return found, err
}

func (a *API) judged(w http.ResponseWriter, r *http.Request) {
	v, err := a.judge.verdict(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.write(w, answer{http.StatusOK, encode(v)})
}
