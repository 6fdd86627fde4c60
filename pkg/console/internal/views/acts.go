package views

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
)

// An act is a line of the history that an operator caused. Its actor has an @, as ann@host or service@host. Among millions of
// lines by services and workers, acts are found by the index of actors: one range for each operator.

// Act is a line of the history with its place.
type Act struct {
	protocol.Event

	Seq int64 // number of the line
}

// ActCursor is where a page of acts ends.
type ActCursor struct {
	At  time.Time
	Seq int64
}

// ActQuery chooses acts, the newest first.
type ActQuery struct {
	Actors   []string
	From, To time.Time // at this moment or after it; before this moment; zero: all
	After    ActCursor // only older lines; zero: from the newest
	Limit    int
}

const (
	maxOperators = 200           // each costs a short statement, and a part of another
	maxActors    = 1000          // that Operators comes by, with an @ or not
	afterAll     = "\U0010FFFF"  // sorts behind all other texts with the same beginning
	workerRuns   = "worker "     // with a run's id, of lines about degraded queues
	operatorMark = "@"           // no actor of ours has it, only user@host
	newestSeq    = math.MaxInt64 // behind all lines
	actorIndex   = "duetime_history_actor"
)

// Operators returns the actors with an @, sorted. longer says that there may be others after the first 200, or after the first
// 1000 actors of any kind.
func (v Views) Operators(ctx context.Context) (all []string, longer bool, err error) {
	text := operatorSQL(v.Store.Dialect())
	after := ""
	for range maxActors {
		var actor string
		err := v.Store.DB().QueryRowxContext(ctx, text, after).Scan(&actor)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return all, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("read who has acted: %w", err)
		case strings.Contains(actor, operatorMark) && len(all) == maxOperators:
			return all, true, nil
		case strings.Contains(actor, operatorMark):
			all = append(all, actor)
		case strings.HasPrefix(actor, workerRuns):
			actor = workerRuns + afterAll
		}
		after = actor
	}
	return all, true, nil
}

// operatorSQL reads the next actor from the index.
func operatorSQL(d store.Dialect) string {
	return "SELECT actor FROM duetime_history" + d.Force(actorIndex) + " WHERE actor > ? ORDER BY actor LIMIT 1"
}

// Acts reads lines of some actors. It reads at most limit entries of the index for each of them.
func (v Views) Acts(ctx context.Context, q ActQuery) ([]Act, error) {
	if len(q.Actors) == 0 {
		return nil, nil
	}
	text, args := actsSQL(v.Store.Dialect(), q)
	var rows []struct {
		Seq, At              int64
		Task                 []byte
		Event, Actor, Detail string
	}
	if err := v.Store.DB().SelectContext(ctx, &rows, text, args...); err != nil {
		return nil, fmt.Errorf("read what %d operators did: %w", len(q.Actors), err)
	}
	acts := make([]Act, len(rows))
	for i, r := range rows {
		acts[i] = Act{protocol.Event{At: time.UnixMilli(r.At).UTC(), Name: r.Event, Actor: r.Actor, Detail: r.Detail}, r.Seq}
		copy(acts[i].Task[:], r.Task)
	}
	return acts, nil
}

// actsSQL finds the lines in the index alone, and then reads them by their numbers.
func actsSQL(d store.Dialect, q ActQuery) (string, []any) {
	from, before, seq := int64(math.MinInt64), int64(math.MaxInt64), int64(newestSeq)
	if !q.From.IsZero() {
		from = q.From.UnixMilli()
	}
	if !q.To.IsZero() {
		before, seq = q.To.UnixMilli(), math.MinInt64 // none of this millisecond
	}
	if place := q.After.At.UnixMilli(); q.After != (ActCursor{}) && place < before {
		before, seq = place, q.After.Seq
	}
	texts, args := make([]string, len(q.Actors)), []any(nil)
	for i, actor := range q.Actors {
		texts[i] = fmt.Sprintf("SELECT * FROM (SELECT at AS acted, seq AS found FROM duetime_history%s WHERE actor = ? AND"+
			" ((at = ? AND seq < ?) OR at < ?) AND at >= ? ORDER BY at DESC, seq DESC LIMIT %d) AS a%d", d.Force(actorIndex), q.Limit, i)
		args = append(args, actor, before, seq, before, from)
	}
	return "SELECT seq, at, task, event, actor, detail FROM (" + strings.Join(texts, " UNION ALL ") +
		" ORDER BY acted DESC, found DESC LIMIT ?) AS page" + d.LeftFirst() + "duetime_history" + d.Force("PRIMARY") +
		" ON seq = found ORDER BY at DESC, seq DESC", append(args, q.Limit)
}
