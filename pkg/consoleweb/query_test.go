package consoleweb

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

const anID = "01890a5d-ac96-774b-bcce-b302099a8057"

// A query is read as it is printed.
func TestQueryIsRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]query{
		"": nil,
		"owner:player-7 kind:reward.daily state:dead": {{"owner", "player-7"}, {"kind", "reward.daily"}, {"state", "dead"}},
		"due:22:00..22:30 late":                       {{"due", "22:00..22:30"}, {keyLate, ""}},
		"label:shop=Z -kind:x -label:a=b":             {{"label", "shop=Z"}, {"-kind", "x"}, {"-label", "a=b"}},
		`owner:"a b" subject:5" queue:任务`:             {{"owner", "a b"}, {"subject", `5"`}, {"queue", "任务"}},
		`owner:"\"a\" b" kind:a\b`:                    {{"owner", `"a" b`}, {"kind", `a\b`}},
		`owner:player:7 player-7 "late" "a:b" "-x"`:   {{"owner", "player:7"}, {"", "player-7"}, {"", "late"}, {"", "a:b"}, {"", "-x"}},
	} {
		q, err := readQuery(text)
		if err != nil || !slices.Equal(q, want) || q.String() != text {
			t.Errorf("%q is read as %q, %v, and printed as %q", text, q, err, q.String())
		}
	}
	if q, err := readQuery(" owner:\"a\"\t\u00a0late\n"); err != nil || q.String() != "owner:a late" {
		t.Errorf("blanks and quotes that nothing needs: %q, %v", q, err)
	}
	for text, word := range map[string]string{
		"owner:a colour:red": "colour:red", "owner:": "owner:", `owner:""`: `owner:""`, "-owner:x": "-owner:x", "-x": "-x", "late:": "late:", "late:1": "late:1",
		`owner:"a b`: `owner:"a`, `owner:"a"b late`: `owner:"a"b`, ":x": ":x", `""`: `""`, "Owner:x": "Owner:x", `kind:"\x"`: `kind:"\x"`,
	} {
		q, err := readQuery(text)
		wrong, ok := errors.AsType[*clauseError](err)
		if q != nil || !ok || wrong.clause != word || !errors.Is(err, errNoClause) {
			t.Errorf("%q is read as %q, %v, want that %q is wrong", text, q, err, word)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, text := range []string{`owner:"a b" late -kind:x`, "due:22:00..+1h player-7", `owner:"`, "\xff \"", "a:b:c", "-", "label:a=b label:a=c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := readQuery(text); err == nil {
			printed := q.String()
			if read, err := readQuery(printed); err != nil || !slices.Equal(read, q) {
				t.Errorf("%q is read as %q, printed as %q, and read as %q, %v", text, q, printed, read, err)
			}
			_, _ = q.filter(time.Unix(1e9, 0))
		} else if !errors.Is(err, errMistake) {
			t.Errorf("%q: %v", text, err)
		}
		if text == "" {
			return
		}
		want := query{{"owner", text}, {"due", text + ".."}}
		if q, err := readQuery(queryText(url.Values{"owner": {text}, "after": {text}})); err != nil || !slices.Equal(q, want) {
			t.Errorf("an address with %q is read as %q, %v", text, q, err)
		}
	})
}

// Addresses of earlier versions, and links of other views, are read into the query.
func TestQueryOfAnAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"": "", "q=+player-7": "player-7", "owner=a+b&kind=x&queue=&state=dead": `owner:"a b" kind:x state:dead`,
		"after=-1h&before=now": "due:-1h..now", "kind=x&after=-1h&bounds=run": "kind:x run:-1h..",
		"owner=a&after=-1h&bounds=run": "owner:a due:-1h..", "label=a%3Db,c%3Dd&subject=s": "subject:s label:a=b label:c=d",
		"excludekind=x,+y&excludelabel=a%3Db": "-kind:x -kind:y -label:a=b", "q=late&kind=x": "late kind:x",
		"id=" + anID + "&owner=a&queue=x": "id:" + anID, "label=,": `label:"" label:""`,
		"kind=x+&state=+dead&label=a%3Db,": "kind:x state:dead label:a=b", "kind=+": `kind:" "`,
	} {
		values, err := url.ParseQuery(address)
		if got := queryText(values); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", address, got, err, want)
		}
	}
}

// A query chooses what its clauses say. Those that can't be met together are named.
func TestQueryChooses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 28, 15, 0, 0, 0, time.UTC)
	pending, dead := new(task.Pending), new(task.Dead)
	for text, want := range map[string]console.Filter{
		"": {},
		`owner:"a b" kind:k queue:q subject:s state:dead`:  {Owner: "a b", Kind: "k", Queue: "q", Subject: "s", State: dead},
		"label:a=b label:c=d=e -kind:x -kind:y -label:f=g": {Labels: map[string]string{"a": "b", "c": "d=e"}, Exclude: task.Exclusion{Kinds: []string{"x", "y"}, Labels: []string{"f=g"}}},
		"due:14:00..+2h":               {DueAfter: now.Add(-time.Hour), DueBefore: now.Add(2 * time.Hour)},
		`run:"2026-03-28 16:00.."`:     {RunAfter: now.Add(time.Hour)},
		"late":                         {State: pending, DueBefore: now},
		"late state:pending due:..-1h": {State: pending, DueBefore: now.Add(-time.Hour)},
		"due:-2h..+1h late owner:ada":  {Owner: "ada", State: pending, DueAfter: now.Add(-2 * time.Hour), DueBefore: now},
	} {
		q, err := readQuery(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := q.filter(now)
		want.Limit = console.DefaultPage
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		diff(t, text, want, got)
	}
	v := &visit{lang: "en"}
	for text, says := range map[string]string{
		"owner:a owner:b": "owner:b is wrong. It can't stand", "late late": "late is wrong. It can't", "label:a=1 label:a=2": "label:a=2 is wrong. It can't",
		"id:" + anID + " late": "id:" + anID + " is wrong. It can't", "run:..now owner:a": "run:..now is wrong. It can't", "run:..now label:a=b": "run:..now is wrong. It can't",
		"late state:dead": "state:dead is wrong. It can't", "state:lost": "state:lost is wrong. This is outside the limits: state must be pending,",
		"due:soon..": "due:soon.. is wrong. This is no time.", "due:soon": "due:soon is wrong. Write owner:", "due:..": "due:.. is wrong. Write",
		"label:city": "label:city is wrong. Write", "label:City=x": "label:City=x is wrong. This is outside the limits", "id:7": "id:7 is wrong. This is outside",
	} {
		q, err := readQuery(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if _, err = q.filter(now); err == nil || !strings.HasPrefix(v.Explain(err), says) || statusOf(err) != 400 {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// A state takes the place of the one before, and that of late where both can't hold.
func TestQueryWithAState(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"owner:a state:dead":        {"owner:a state:pending", "owner:a state:done"},
		"late owner:a":              {"late owner:a state:pending", "owner:a state:done"},
		"late state:pending due:..": {"late due:.. state:pending", "due:.. state:done"},
		"id:" + anID:                {"state:pending", "state:done"},
	} {
		q, err := readQuery(text)
		if got := [2]string{q.With("state", "pending").String(), q.With("state", "done").String()}; err != nil || got != want {
			t.Errorf("%s: %v, got %q, want %q", text, err, got, want)
		}
	}
}

// The page has a link for each clause of a query, with all others: a long query would make a huge page.
func TestQueriesAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("late ", maxClauses+1), "subject:" + strings.Repeat("x", maxQuery)} {
		if q, err := readQuery(text); err == nil || statusOf(err) != 400 {
			t.Errorf("%d bytes are %d clauses, %v", len(text), len(q), err)
		}
	}
	if q, err := readQuery(strings.Repeat("late ", maxClauses)); err != nil || len(q) != maxClauses {
		t.Errorf("%d clauses, %v", len(q), err)
	}
}

// What is said of a word that is none lists all keys.
func TestQueryKeysAreListed(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"err.noclause", "queryhint"} {
		for _, lang := range languages() {
			for _, key := range append(queryKeys(), keyLate) {
				if said := say(lang, message); !strings.Contains(said, key) {
					t.Errorf("%s in %s lacks %s: %s", message, lang, key, said)
				}
			}
		}
	}
}
