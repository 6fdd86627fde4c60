package protocol

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// Which partition a hint goes to. The hints of an owner, or of an order key, share one, so that one worker at a time has their tasks. But a
// task that waits for a worker which knows its kind must not come back to the one that does not: its hint goes on to another
// partition with each version. All that the publisher knows of a task is its entry, so that the time says so.

// movingOn is the part of a second by which the next try of a task tells that its hint goes on, in milliseconds. Another task
// may have it by chance: its hint then goes to another partition than its owner's, which costs nothing but company.
const movingOn = 787

// routeSeparator parts the owner from the version in a key; no owner of ours has it.
const routeSeparator = "\x1f"

// OnTheMove is the first moment from t on that has movingOn.
func OnTheMove(t time.Time) time.Time {
	ms := t.UnixMilli()
	ms += (movingOn - ms%1000 + 1000) % 1000
	if ms > rowform.MaxUnixMs {
		return t
	}
	return time.UnixMilli(ms).UTC()
}

// KeepingRoute is the first moment from t on, in whole milliseconds, that has not: the hint stays with its owner's others.
func KeepingRoute(t time.Time) time.Time {
	t = rowform.CeilMs(t)
	if t.UnixMilli()%1000 == movingOn {
		t = t.Add(time.Millisecond)
	}
	return t
}

// Route names whose hints share a partition, and are with one runner at a time: the owner's, or those of the order key if the task has
// one that a spec gave. Its tasks may have different owners, and one worker can run them one after the other. The order never
// depends on it.
func Route(owner, orderKey string) string {
	if !RoutesByOrder(orderKey) {
		return owner
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(orderKey))
	return fmt.Sprintf("~%016x", h.Sum64())
}

// RoutesByOrder reports whether the hints of tasks with this order key share a route: a spec gave it, so the tasks may have several owners.
func RoutesByOrder(orderKey string) bool { return strings.HasPrefix(orderKey, rowform.OrderByKey) }

// RouteKey is the key by which a hint with this route and score finds its partition: the route, or the route and a number that says how
// many partitions on. SplitRoute reads it.
func RouteKey(route string, s Score) string {
	key := HintOwner(route)
	if v := s.Version(); v > 1 && s.RunAt().UnixMilli()%1000 == movingOn {
		key += routeSeparator + strconv.FormatInt(v, 10)
	}
	return key
}

// SplitRoute parts a key into the route and how many partitions on from the route's the hint goes.
func SplitRoute(key []byte) (route []byte, on int) {
	for i := len(key) - 1; i > 0 && len(key)-i <= 5; i-- {
		if key[i] == routeSeparator[0] {
			on, err := strconv.Atoi(string(key[i+1:]))
			if err != nil || on < 0 {
				return key, 0
			}
			return key[:i], on
		}
	}
	return key, 0
}

// HintOwner is the owner as a hint carries it: as the row has it, or, for an owner that CheckOwner refuses and another program
// has written all the same, a short stand-in. The row decides, so that the hint need not name the owner.
func HintOwner(owner string) string {
	if task.CheckOwner(owner) == nil {
		return owner
	}
	return fmt.Sprintf("~%08x", crc32.ChecksumIEEE([]byte(owner)))
}

// HintKind is the kind as a hint carries it: as the row has it, or a stand-in for one that no worker can know.
func HintKind(kind string) string {
	if CheckKind(kind) == nil {
		return kind
	}
	return "~"
}
