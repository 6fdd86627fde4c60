package store

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// columns declares the columns of a task that this package reads and writes. Every list of columns in its SQL, every list
// of values and every scan is made from it. The pipeline ignores a column that is not here.
//
// All lists have this order. due_at comes before run_at, because "run_at = due_at" in an UPDATE reads the value that was
// set just before.
var columns = []column[task.Task]{
	binaryID("id", func(t *task.Task) *task.ID { return &t.ID }, inserted|indexed),
	text("kind", func(t *task.Task) *string { return &t.Kind }, inserted|indexed),
	text("owner", func(t *task.Task) *string { return &t.Owner }, inserted|indexed),
	text("subject", func(t *task.Task) *string { return &t.Subject }, inserted|indexed),
	text("queue", func(t *task.Task) *string { return &t.Queue }, inserted|changed|indexed),
	number("shard", func(t *task.Task) *int { return &t.Shard }, inserted|indexed),
	number("state", func(t *task.Task) *task.State { return &t.State }, changed|indexed),
	moment("due_at", func(t *task.Task) *time.Time { return &t.DueAt }, inserted|changed),
	moment("run_at", func(t *task.Task) *time.Time { return &t.RunAt }, inserted|changed|indexed),
	number("version", func(t *task.Task) *int64 { return &t.Version }, indexed), // each write raises it in SQL
	number("attempt", func(t *task.Task) *int { return &t.Attempt }, changed),
	number("max_attempts", func(t *task.Task) *int { return &t.MaxAttempts }, inserted|changed),
	nullable("dedup_key", func(t *task.Task) *string { return &t.DedupKey }, inserted|changed),
	payload("payload", func(t *task.Task) *[]byte { return &t.Payload }, inserted|changed),
	text("last_error", func(t *task.Task) *string { return &t.LastError }, changed),
	text("traceparent", func(t *task.Task) *string { return &t.Traceparent }, inserted|changed),
	nullable("order_key", func(t *task.Task) *string { return &t.OrderKey }, inserted|indexed),
	nullable("group_name", func(t *task.Task) *string { return &t.Group }, inserted),
	moment("created_at", func(t *task.Task) *time.Time { return &t.CreatedAt }, inserted),
	moment("updated_at", func(t *task.Task) *time.Time { return &t.UpdatedAt }, inserted|changed|indexed),
	ending("finished_at", func(t *task.Task) *time.Time { return &t.FinishedAt }, inserted|changed),
	ending("tried_at", func(t *task.Task) *time.Time { return &t.TriedAt }, changed).addedToSQLite("INTEGER"),
	number("ran", func(t *task.Task) *int64 { return &t.Ran }, changed).addedToSQLite("INTEGER NOT NULL DEFAULT 0"),
}

// column is one column of a table whose rows are T: tasks, recurrences, operations.
type column[T any] struct {
	name   string
	sqlite string       // type of the column if SQLite's table lacks it; empty: a migration makes the column
	into   func(*T) any // destination of a scan: the value goes straight into the row
	value  func(*T) any // value for INSERT and UPDATE
	same   func(a, b *T) bool
	uses   use
}

// addedToSQLite gives the column a type for SQLite's table, which lacks it.
func (c column[T]) addedToSQLite(kind string) column[T] {
	c.sqlite = kind
	return c
}

// use is the set of statements that have a column, besides the SELECT of a whole row.
type use int

const (
	inserted use = 1 << iota // written with a new row; other columns start with the schema's default
	changed                  // written by transitions
	indexed                  // read by sweeps and lists, which make index entries of it
)

// having returns the columns of tasks of one use, except those named in without.
func having(u use, without ...string) []column[task.Task] {
	return slices.DeleteFunc(slices.Clone(columns), func(c column[task.Task]) bool { return c.uses&u == 0 || slices.Contains(without, c.name) })
}

// names joins the columns' names for a statement.
func names[T any](of []column[T]) string {
	all := make([]string, len(of))
	for i, c := range of {
		all[i] = c.name
	}
	return strings.Join(all, ", ")
}

// appendValues appends the values of a row's columns.
func appendValues[T any](args []any, of []column[T], row *T) []any {
	for _, c := range of {
		args = append(args, c.value(row))
	}
	return args
}

// destinations are first, and behind it those of a row's columns.
func destinations[T any](first []any, of []column[T], row *T) []any {
	dest := append(make([]any, 0, len(first)+len(of)), first...)
	for _, c := range of {
		dest = append(dest, c.into(row))
	}
	return dest
}

func text[T any](name string, field func(*T) *string, uses use) column[T] {
	return column[T]{name, "", func(r *T) any { return field(r) }, func(r *T) any { return *field(r) }, func(a, b *T) bool { return *field(a) == *field(b) }, uses}
}

// nullable is a text that is stored as NULL if it is empty.
func nullable[T any](name string, field func(*T) *string, uses use) column[T] {
	return column[T]{name, "TEXT", func(r *T) any { return nullableText{field(r)} }, func(r *T) any {
		if s := *field(r); s != "" {
			return s
		}
		return nil
	}, func(a, b *T) bool { return *field(a) == *field(b) }, uses}
}

func payload[T any](name string, field func(*T) *[]byte, uses use) column[T] {
	return column[T]{name, "", func(r *T) any { return field(r) }, func(r *T) any { return string(*field(r)) }, func(a, b *T) bool { return bytes.Equal(*field(a), *field(b)) }, uses}
}

func number[T any, N integer](name string, field func(*T) *N, uses use) column[T] {
	return column[T]{name, "", func(r *T) any { return whole[N]{field(r)} }, func(r *T) any { return int64(*field(r)) }, func(a, b *T) bool { return *field(a) == *field(b) }, uses}
}

func binaryID[T any](name string, field func(*T) *task.ID, uses use) column[T] {
	return column[T]{name, "", func(r *T) any { return idBytes{field(r)} }, func(r *T) any { return field(r)[:] }, func(a, b *T) bool { return *field(a) == *field(b) }, uses}
}

func moment[T any](name string, field func(*T) *time.Time, uses use) column[T] {
	return column[T]{name, "", func(r *T) any { return unixMs{field(r)} }, func(r *T) any { return field(r).UnixMilli() }, func(a, b *T) bool { return field(a).UnixMilli() == field(b).UnixMilli() }, uses}
}

// ending is a moment that is 0 until the task ends. NULL means the same but takes no space in the row. A row that grows
// when its task ends is moved within its page: MariaDB would mark a quarter fewer tasks done in the same time.
func ending[T any](name string, field func(*T) *time.Time, uses use) column[T] {
	return column[T]{name, "INTEGER", func(r *T) any { return endMs{field(r)} }, func(r *T) any { return msOrZero(*field(r)) }, func(a, b *T) bool { return field(a).Equal(*field(b)) }, uses}
}

// The following types are destinations of a scan. Each is one pointer, so that its conversion to an interface allocates
// nothing, and has its own Scan, so that database/sql needs no reflection.

type integer interface{ ~int | ~int8 | ~int64 }

type whole[N integer] struct{ to *N }

func (d whole[N]) Scan(src any) error {
	n, err := toInt64(src)
	if err != nil {
		return err
	}
	if *d.to = N(n); int64(*d.to) != n {
		return fmt.Errorf("%d is out of range", n)
	}
	return nil
}

type unixMs struct{ to *time.Time }

func (d unixMs) Scan(src any) error {
	ms, err := toInt64(src)
	*d.to = fromMs(ms)
	return err
}

type endMs struct{ to *time.Time }

func (d endMs) Scan(src any) error {
	*d.to = time.Time{}
	if src == nil {
		return nil
	}
	ms, err := toInt64(src)
	if ms > 0 {
		*d.to = fromMs(ms)
	}
	return err
}

type nullableText struct{ to *string }

func (d nullableText) Scan(src any) error {
	switch s := src.(type) {
	case nil:
		*d.to = ""
	case []byte:
		*d.to = string(s)
	case string:
		*d.to = s
	default:
		return fmt.Errorf("a text was expected, not %T", src)
	}
	return nil
}

type idBytes struct{ to *task.ID }

func (d idBytes) Scan(src any) (err error) {
	b, _ := src.([]byte)
	*d.to, err = protocol.IDFromBytes(b)
	return err
}

// anyTrue is a destination that any row's true makes true.
type anyTrue bool

func (d *anyTrue) Scan(src any) error {
	n, err := toInt64(src)
	*d = *d || n != 0
	return err
}

// toInt64 converts a whole number as drivers return it.
func toInt64(src any) (int64, error) {
	switch v := src.(type) {
	case int64:
		return v, nil
	case []byte:
		return strconv.ParseInt(string(v), 10, 64)
	case string:
		return strconv.ParseInt(v, 10, 64)
	}
	return 0, fmt.Errorf("a whole number was expected, not %T", src)
}

func fromMs(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func msOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
