package main

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
)

func TestTopNamesKindsThatNobodyHandles(t *testing.T) {
	t.Parallel()
	f := frame{Live: store.Live{Now: time.UnixMilli(0), Unhandled: []store.Unhandled{
		{Queue: "default", Kind: "pet.meel", Tasks: 12}, {Queue: "a", Kind: "b", Tasks: 1}, {Queue: "a", Kind: "c", Tasks: 1}, {Queue: "a", Kind: "d", Tasks: 1},
	}}}
	if got := f.draw(160, 24, plain); !strings.Contains(got, "no handler for pet.meel in queue default: 12 waiting") || !strings.Contains(got, "and 1 more kinds") {
		t.Errorf("got\n%s", got)
	}
	f.Unhandled = nil
	if got := f.draw(160, 24, plain); strings.Contains(got, "no handler") {
		t.Errorf("got\n%s", got)
	}
}
