package index

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	idBytes      = len(task.ID{})
	separator    = "\x1f"
	orderMark    = "\x1e"    // between the queue and an order key that a spec gave; few tasks have one
	defaultQueue = "default" // stored as the empty string: most tasks have it, and a member is stored in two sets
	maxMember    = 2 << 10   // bytes; members of rows are much shorter
)

var errMember = errors.New("not a member of the index")

// encode returns the task's member: its 16 id bytes, then kind, queue (and order key), owner and subject. The member never changes.
func encode(t task.Task) string {
	queue := ""
	if t.Queue != "" && t.Queue != defaultQueue { // another program's row without a queue is in the default one
		queue = strings.ReplaceAll(part(t.Queue), orderMark, "?")
	}
	if protocol.RoutesByOrder(t.OrderKey) { // else hints go by the owner
		queue += orderMark + part(t.OrderKey)
	}
	return string(t.ID[:]) + strings.Join([]string{part(t.Kind), queue, part(t.Owner), t.Subject}, separator)
}

// part replaces separators in a name, and an empty kind or owner. Rows of other programs may have both, and their tasks
// must be put all the same. The subject comes last and may have separators.
func part(s string) string {
	if s == "" {
		return "?"
	}
	return strings.ReplaceAll(s, separator, "?")
}

// decode reads a member of a set. If it is not a member of ours, Err is set and the names are empty.
func decode(member string, score float64) protocol.Entry {
	e := protocol.Entry{Member: member, Score: scoreOf(score)}
	parts := strings.SplitN(member[min(idBytes, len(member)):], separator, 4)
	refused := len(parts) != 4 || len(member) > maxMember || parts[0] == "" || parts[2] == ""
	if !refused {
		var ordered bool
		e.Queue, e.OrderKey, ordered = strings.Cut(parts[1], orderMark)
		refused = e.Queue == defaultQueue || ordered && !protocol.RoutesByOrder(e.OrderKey)
	}
	if refused {
		e = protocol.Entry{Member: member, Score: e.Score, Err: fmt.Errorf("%q: %w", member[:min(len(member), 64)], errMember)}
		return e
	}
	copy(e.ID[:], member)
	e.Kind, e.Owner, e.Subject = parts[0], parts[2], parts[3]
	if e.Queue == "" {
		e.Queue = defaultQueue
	}
	return e
}
