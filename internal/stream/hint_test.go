package stream

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

var published = time.UnixMilli(1_800_000_000_123).UTC()

func hint(owner string) protocol.Hint {
	return protocol.Hint{
		ID: task.NewID(), Kind: "pet.meal_finished", Owner: owner, RunAt: 1_800_000_000_000, Version: 4095, Epoch: 12,
	}
}

func TestHintRoundTrip(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"player-1", "Ünï çødé", `"quoted\`, "日本", "a\u2028b", "<&>"} {
		want := hint(owner)
		raw := appendHint(nil, want, published)
		got, at, err := decodeHint(raw)
		if err != nil {
			t.Fatalf("decode %s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" || !at.Equal(published) {
			t.Errorf("at %s, hint (-want +got): %s", at, diff)
		}
		var generic map[string]any
		if err := json.Unmarshal(raw, &generic); err != nil || generic["owner"] != owner {
			t.Errorf("%s is not the JSON that others expect: %v", raw, err)
		}
	}
}

func TestHintLimits(t *testing.T) {
	t.Parallel()
	good := string(appendHint(nil, hint("a"), published))
	for name, raw := range map[string]string{
		"nothing":         "",
		"null":            "null",
		"an array":        "[]",
		"deep nesting":    strings.Repeat("[", 4000),
		"no id":           `{"kind":"k","owner":"o","run_at":1,"version":1}`,
		"no kind":         strings.Replace(good, `"pet.meal_finished"`, `""`, 1),
		"no owner":        strings.Replace(good, `"owner":"a"`, `"owner":""`, 1),
		"a long owner":    strings.Replace(good, `"owner":"a"`, `"owner":"`+strings.Repeat("a", 65)+`"`, 1),
		"a braced owner":  strings.Replace(good, `"owner":"a"`, `"owner":"{a}"`, 1),
		"bytes":           strings.Replace(good, `"owner":"a"`, "\"owner\":\"\xff\"", 1),
		"a late run_at":   strings.Replace(good, "1800000000000", "2199023255552", 1),
		"a version":       strings.Replace(good, `"version":4095`, `"version":4096`, 1),
		"a fraction":      strings.Replace(good, `"version":4095`, `"version":4.5`, 1),
		"a negative time": strings.Replace(good, `"run_at":1`, `"run_at":-1`, 1),
		"a huge message":  good + strings.Repeat(" ", maxHintBytes),
	} {
		if _, _, err := decodeHint([]byte(raw)); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

func TestHintOfEntry(t *testing.T) {
	t.Parallel()
	row := task.Task{ID: task.NewID(), Kind: "k", Owner: "o", RunAt: time.UnixMilli(1_800_000_000_001), Version: 4097}
	got := hintOf(protocol.Entry{ID: row.ID, Kind: row.Kind, Owner: row.Owner, Score: protocol.ScoreOf(row)}, 3)
	want := protocol.Hint{ID: row.ID, Kind: "k", Owner: "o", RunAt: 1_800_000_000_001, Version: 1, Epoch: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hint (-want +got): %s", diff)
	}
}

func BenchmarkEncodeHint(b *testing.B) {
	h := hint("player-123456")
	buf := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendHint(buf[:0], h, published)
	}
}

func BenchmarkDecodeHint(b *testing.B) {
	raw := appendHint(nil, hint("player-123456"), published)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := decodeHint(raw); err != nil {
			b.Fatal(err)
		}
	}
}
