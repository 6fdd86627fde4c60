package protocol

import (
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

func TestPausesOfATask(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time {
		return time.UnixMilli(1_800_000_000_000).Add(time.Duration(minutes) * time.Minute)
	}
	pauses := PausesOf([]Pause{
		{PauseOf: PauseOf{Queue: "calls"}}, // workers hold these
		{PauseOf: PauseOf{Queue: "calls", Owner: "ann"}, Until: at(1)},
		{PauseOf: PauseOf{Queue: "calls", Owner: "ann"}, Until: at(2)},
		{PauseOf: PauseOf{Kind: "mail"}, Until: at(3)},
		{PauseOf: PauseOf{Kind: "call", Owner: "bob"}, Until: at(4)},
		{PauseOf: PauseOf{Queue: "calls", Kind: "call", Owner: "carl"}, Until: at(5)},
		{PauseOf: PauseOf{Queue: "mails", Kind: "call"}, Until: at(6)},
		{PauseOf: PauseOf{Owner: "dora"}, Until: at(7)},
	})
	for _, c := range []struct {
		queue, kind, owner string
		want               time.Time
	}{
		{"calls", "call", "ann", at(2)},
		{"mails", "call", "ann", at(6)},
		{"calls", "mail", "ann", at(3)},
		{"calls", "call", "bob", at(4)},
		{"other", "call", "carl", time.Time{}},
		{"calls", "call", "carl", at(5)},
		{"calls", "call", "eve", time.Time{}},
		{"mails", "mail", "dora", at(7)},
	} {
		row := task.Task{Queue: c.queue, Kind: c.kind, Owner: c.owner}
		if got := pauses.Until(&row); !got.Equal(c.want) {
			t.Errorf("%+v: paused until %v, want %v", c, got, c.want)
		}
	}
	if none := PausesOf(nil); !none.Until(&task.Task{Kind: "mail"}).IsZero() {
		t.Error("paused without a pause")
	}
}

func TestPauseLimits(t *testing.T) {
	t.Parallel()
	for _, of := range []PauseOf{{}, {Queue: "no queue"}, {Kind: "no kind"}, {Owner: "{"}, {Kind: WitnessQueue}, {Owner: WitnessQueue + ".3"}} {
		if of.Check() == nil {
			t.Errorf("%+v is let in", of)
		}
	}
	now := time.UnixMilli(1_800_000_000_000)
	for after, want := range map[time.Duration]bool{0: false, -1: false, time.Millisecond: true, MaxPause: true, MaxPause + 1: false} {
		if got := CheckPauseEnd(now.Add(after), now) == nil; got != want {
			t.Errorf("an end %v from now is let in: %v", after, got)
		}
	}
	if got := (PauseOf{Queue: "calls", Owner: "ann"}).Detail(now); got != "queue=calls, owner=ann until 2027-01-15T08:00:00.000Z" {
		t.Error(got)
	}
	if got := (PauseOf{Queue: "calls"}).Detail(time.Time{}); got != "calls" {
		t.Error(got)
	}
}
