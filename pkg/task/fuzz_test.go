package task_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/duetime/duetime/pkg/task"
)

// FuzzResolve schedules any input at any moment: a row within the limits, never due too early or in parts of a
// millisecond, or a FieldError that names the field.
func FuzzResolve(f *testing.F) {
	f.Add("player-1", "pet-7", "key", uint8(1), "payload", int64(time.Hour), int64(0))
	f.Add("", "", "", uint8(0), "", int64(-1), int64(1))
	f.Add(" a", "{}", "\xff", uint8(2), "\x00", int64(1<<62), int64(1<<41))
	f.Add("日本", "a\u0085", "k\u200b", uint8(3), strings.Repeat("é", 2047), int64(10*365*24*time.Hour), int64(999_999))
	kind := task.NewKind[string]("text")
	f.Add("player-1", "pet-7", "key", uint8(5), "payload", int64(time.Hour), int64(0))
	window := func(key string) task.Option { return task.Window(key, time.Second) }
	keyed := []func(string) task.Option{nil, task.Key, task.KeyMove, task.Once, task.KeyReplace, window}
	fields := []string{"owner", "subject", "key", "payload", "due"}
	f.Fuzz(func(t *testing.T, owner, subject, key string, mode uint8, payload string, in, at int64) {
		opts := []task.Option{task.Subject(subject)}
		if with := keyed[int(mode)%len(keyed)]; with != nil {
			opts = append(opts, with(key))
		}
		moment := now.Add(time.Duration(at))
		for _, when := range []task.When{task.In(time.Duration(in)), task.At(moment)} {
			got, err := kind.New(owner, payload, when, opts...).Resolve(now)
			if field := (*task.FieldError)(nil); err != nil {
				if !errors.As(err, &field) || !slices.Contains(fields, field.Field) || field.Problem == "" {
					t.Fatalf("refused with %v", err)
				}
				continue
			}
			want := moment
			if when == task.In(time.Duration(in)) {
				want = now.Add(time.Duration(in))
			}
			if want.Before(now) {
				want = now
			}
			if d := got.DueAt.Sub(want); d < 0 || d >= time.Millisecond || got.DueAt.Nanosecond()%1_000_000 != 0 || got.DueAt.UnixMilli() >= 1<<41 {
				t.Fatalf("due at %v, want %v", got.DueAt, want)
			}
			sound := func(s string, limit int) bool {
				return len(s) <= limit && utf8.ValidString(s) && !strings.ContainsAny(s, "{}") && strings.TrimSpace(s) == s && strings.IndexFunc(s, unicode.IsControl) < 0
			}
			if got.Owner != owner || owner == "" || !sound(owner, 64) || got.Subject != subject || !sound(subject, 63) ||
				!sound(got.DedupKey, 145) || len(got.Payload) > 4096 || !utf8.Valid(got.Payload) {
				t.Fatalf("outside the limits: %+v", got)
			}
		}
	})
}

// FuzzParseID reads any text: an id whose text is that one, or a FieldError.
func FuzzParseID(f *testing.F) {
	f.Add("01890000-0000-7000-8000-00000000000A")
	f.Add("{01890000-0000-7000-8000-00000000000}")
	f.Add("urn:uuid:01890000-0000-7000-8000-0000")
	f.Add("0189000000007000800000000000000000000")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := task.ParseID(text)
		field := (*task.FieldError)(nil)
		switch {
		case err == nil && id.String() != strings.ToLower(text):
			t.Fatalf("%q is %s", text, id)
		case err != nil && (!errors.As(err, &field) || field.Field != "task_id" || !id.IsZero()):
			t.Fatalf("%q: %s, %v", text, id, err)
		}
	})
}
