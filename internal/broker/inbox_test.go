package broker

import (
	"testing"
	"testing/synctest"
)

// Once all records take maxInboxBytes, no reader fetches more, also one of a partition without records.
func TestInboxIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(2)
		large := Record{Value: make([]byte, maxInboxBytes/2)}
		b.put(0, []Record{large})
		if err := b.awaitRoom(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		b.put(0, []Record{large})
		woken := false
		go func() { woken = b.awaitRoom(t.Context(), 1) == nil }()
		if synctest.Wait(); woken {
			t.Error("a reader fetches more")
		}
		if _, err := b.take(t.Context(), nil, 1); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); !woken {
			t.Error("a reader waits on although a record was taken")
		}
	})
}
