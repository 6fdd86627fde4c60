package consoleweb

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/why"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var (
	verbs    = regexp.MustCompile(`%[a-z]`)
	usedWord = regexp.MustCompile(`\.?T\(?\s?"([a-z0-9.]+)"`)
)

// Both languages have all messages, with the same values in the same order.
func TestPageWordsAreWhole(t *testing.T) {
	t.Parallel()
	for key, w := range messages() {
		if w.en == "" || w.zh == "" {
			t.Errorf("%s lacks a language: %+v", key, w)
		}
		if en, zh := verbs.FindAllString(w.en, -1), verbs.FindAllString(w.zh, -1); !slices.Equal(en, zh) {
			t.Errorf("%s: %v in English, %v in Chinese", key, en, zh)
		}
		if plural, one := strings.CutSuffix(key, ".one"); one {
			wantWord(t, plural)
		}
	}
}

// Each part of an explanation that may be missing has a name.
func TestPartsHaveNames(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		why.PartQueues, why.PartWaiting, why.PartBehind, why.PartProcesses, why.PartLeaders, why.PartRates, why.PartHandlers, why.PartDead, why.PartFired,
	} {
		wantWord(t, "part."+part)
	}
}

// Each word that the pages use is there, and each that is there is used.
func TestPageWordsAreUsed(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	names, err := fs.Glob(pageFiles, "page/*.html")
	pipelinetest.Must(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(pageFiles, name)
		pipelinetest.Must(t, err)
		source.Write(text)
	}
	used := map[string]bool{}
	for _, m := range usedWord.FindAllStringSubmatch(source.String(), -1) {
		used[m[1]] = true
	}
	for key := range used {
		if _, known := messages()[key]; !known {
			t.Errorf("a template uses %s, which is no message", key)
		}
	}
	for state := task.Pending; state <= task.Dead; state++ {
		wantWord(t, "state."+state.String())
	}
	for state := task.RecurrenceActive; state <= task.RecurrenceOver; state++ {
		wantWord(t, "recstate."+state.String())
	}
	for state := task.OperationRunning; state <= task.OperationDone; state++ {
		wantWord(t, "opstate."+state.String())
	}
	for _, b := range bulkVerbs() {
		wantWord(t, "verb."+string(b.verb))
	}
	for _, event := range slices.Concat(auditEvents(), []string{
		"scheduled", task.EventDone, task.EventFailed, task.EventSnoozed, task.EventSkipped, task.EventDead, protocol.EventHorizon,
		protocol.EventDefined, protocol.EventOver, protocol.EventDegraded, protocol.EventRecovered, protocol.EventFollows, protocol.EventMended,
	}) {
		wantWord(t, "event."+event)
	}
	for _, step := range stepsOf(&console.Ran{EndedMs: 1}) {
		wantWord(t, "ran."+step.Key)
	}
	for _, state := range []console.ProcessState{console.ProcessAlive, console.ProcessStuck, console.ProcessSilent} {
		wantWord(t, "process."+string(state))
	}
	for _, at := range places() {
		wantWord(t, "view."+at.name)
	}
	for name := range changes() {
		thing, verb, _ := strings.Cut(name, ".")
		switch thing {
		case "operation":
			wantWord(t, "ask.op."+verb)
			wantWord(t, "did.op."+verb)
		case "recurrence":
			wantWord(t, "ask.rec."+verb)
			wantWord(t, "did.rec."+verb)
		case "owner":
			for _, key := range []string{"ask.owner.", "fact.owner.", "did.owner."} {
				wantWord(t, key+verb)
			}
		case "task":
			wantWord(t, "ask."+verb)
			wantWord(t, "did."+verb)
		case "pause":
			wantWord(t, "ask."+name)
			wantWord(t, "fact."+name)
			wantWord(t, "did."+name)
		case "dead":
			wantWord(t, "ask."+name)
		}
	}
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func wantWord(t *testing.T, key string) {
	t.Helper()
	if _, known := messages()[key]; !known {
		t.Errorf("%s is no message", key)
	}
}

func TestPageLanguage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chosen, accepted, want string }{
		{"", "", "en"},
		{"", "zh-CN,zh;q=0.9,en;q=0.8", "zh"},
		{"", "de, zh-TW;q=0.5, en;q=0.4", "zh"},
		{"", "en-GB, zh;q=0.9", "en"},
		{"", "fr;q=x, *", "en"},
		{"en", "zh", "en"},
		{"zh", "en", "zh"},
		{"xx", "zh", "zh"},
	} {
		if got := langOf(c.chosen, c.accepted); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestPageSpans(t *testing.T) {
	t.Parallel()
	v := &visit{lang: "en", zone: time.FixedZone("there", 2*3600), now: time.Date(2026, 3, 28, 15, 0, 0, 0, time.UTC)}
	diff(t, "a row of the year 1", v.At(time.Time{}.UnixMilli()).Relative, "292 y ago")
	for d, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s", 118 * time.Minute: "1 h 58 min", 12*time.Hour + time.Minute: "12 h",
		math.MinInt64: "-292 y", 24 * time.Hour: "1 d", 9*24*time.Hour + 23*time.Hour: "9 d 23 h", 366 * 24 * time.Hour: "1 y 1 d", 61 * time.Second: "1 min 1 s",
	} {
		if got := v.short(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for ms, want := range map[float64]string{
		0: "0.0 ms", 0.44: "0.4 ms", 14.4: "14 ms", 999.4: "999 ms", 1728: "1.7 s", 25_000: "25 s", 79_991: "1 min 19 s", 1e300: "146 y", -1e300: "-146 y", -3: "-3.0 ms", -7.2e6: "-2 h",
	} {
		if got := v.Ms(ms); got != want {
			t.Errorf("%v ms: got %q, want %q", ms, got, want)
		}
	}
	for text, want := range map[string]string{
		"1m19.991s after it was due": "1 min 19 s after it was due", "shift by 2h0m0s, owner 10s": "shift by 2 h, owner 10s", "by -30m0s": "by -30 min",
	} {
		diff(t, text, want, v.Detail(text))
	}
	got := v.Detail("by 2h to 2026-03-28T12:26:44.925Z, operation\u202e 7")
	if want := "by 2h to 2026-03-28 14:26:44, operation\ufffd 7"; got != want {
		t.Errorf("detail: got %q, want %q", got, want)
	}
}

func TestPageTypedTimes(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	pipelinetest.Must(t, err)
	now := time.Date(2026, 3, 28, 15, 0, 0, 0, berlin)
	if at, err := parseTyped(" 14:00 ", now); err != nil || at.Format(time.RFC3339) != "2026-03-29T14:00:00+02:00" {
		t.Errorf("14:00: got %s, %v, want that of tomorrow", at, err)
	}
	for text, want := range map[string]string{
		"14:00": "2026-03-28T14:00:00+01:00", "16:00:05": "2026-03-28T16:00:05+01:00", "+2h": "2026-03-28T17:00:00+01:00",
	} {
		at, err := parseBound(text, now)
		if got := at.In(berlin).Format(time.RFC3339); err != nil || got != want {
			t.Errorf("bound %q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"soon": "err.time", "1969-12-31": "err.time", "+x": "err.span", "2026-03-29 02:30": "err.gap"} {
		_, err := parseTyped(text, now)
		v := &visit{lang: "en"}
		diff(t, text, v.Explain(err), v.T(want))
	}
}

// A number of tasks that may be too low says so.
func TestPageCountsAreHonest(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{7: "7", 99_999: "99,999", 100_000: "100,000+"} {
		if got := (&visit{}).Counted(n, 100_000); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// The marks of a line are whole hours or the beginnings of days, whatever the zone's clock does.
func TestPageLineMarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, from string
		step       time.Duration
		want       []string
	}{
		{"Europe/Berlin", "2025-10-25 14:00", wholeDay, []string{"10-26 00:00", "10-27 00:00", "10-28 00:00"}},
		{"Europe/Berlin", "2025-10-26 23:30", wholeDay, []string{"10-27 00:00", "10-28 00:00", "10-29 00:00"}},
		{"America/Havana", "2025-03-08 00:00", wholeDay, []string{"03-09 01:00", "03-10 00:00", "03-11 00:00"}},
		{"Asia/Shanghai", "2026-01-28 09:00", 5 * wholeDay, []string{"02-02 00:00", "02-07 00:00", "02-12 00:00"}},
		{"Asia/Kolkata", "2026-01-28 09:20", time.Hour, []string{"01-28 10:00", "01-28 11:00", "01-28 12:00"}},
		{"UTC", "2026-01-28 23:50", 10 * time.Minute, []string{"01-29 00:00", "01-29 00:10", "01-29 00:20"}},
	} {
		zone, err := time.LoadLocation(c.zone)
		pipelinetest.Must(t, err)
		from, err := time.ParseInLocation("2006-01-02 15:04", c.from, zone)
		pipelinetest.Must(t, err)
		var got []string
		for at := range walls(from, c.step) {
			if got = append(got, at.Format("01-02 15:04")); len(got) == len(c.want) {
				break
			}
		}
		diff(t, c.zone+" "+c.from, c.want, got)
	}
}

func TestPageLogins(t *testing.T) {
	t.Parallel()
	users, err := ParseUsers("# operators\nann:operate(move+cancel):secret:with:colons\n\n bob:read:other\teve:none:third")
	pipelinetest.Must(t, err)
	diff(t, "users", []User{
		{"ann", "secret:with:colons", Grant{RoleOperate, []string{VerbMove, VerbCancel}}},
		{"bob", "other", Grant{Role: RoleRead}},
		{"eve", "third", Grant{Role: roleNone}},
	}, users)
	for _, text := range []string{
		"ann", "ann:read", "ann:read:", ":read:hunter2", "ann:root:hunter2", "ann:read(move):hunter2", "ann:operate():hunter2",
		"ann:hunter2:operate", "ann:hunter2(x:read", "ann:operate(hunter2):read",
	} {
		if _, err := ParseTokens(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
	hash, err := HashPassword("correct horse battery")
	pipelinetest.Must(t, err)
	same := func(given string) bool { return samePassword(given, hash, hashRounds) }
	if !same("correct horse battery") || same("correct horse batterz") || same(hash) {
		t.Errorf("the hash %s is wrong", hash)
	}
	if h, isHash, err := parseHash(absentPassword); err != nil || !isHash || h.rounds != minHashRounds {
		t.Errorf("nobody's hash: %v", err)
	}
}

// The page says what nobody knows, in place of the driver's words.
func TestPageExplainsALostCommit(t *testing.T) {
	t.Parallel()
	v := &visit{lang: "en"}
	said := v.Explain(errors.Join(schedule.ErrCommitUnknown, context.DeadlineExceeded))
	if !strings.Contains(said, "may have been made") {
		t.Errorf("the page says %q", said)
	}
}
