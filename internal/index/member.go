package index

import (
	"errors"
	"fmt"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

const (
	idBytes      = len(task.ID{})
	separator    = "\x1f"
	defaultQueue = "default" // stored as the empty string: most tasks have it, and every byte stands in two sets
	maxMember    = 2 << 10   // bytes; what a row can hold stays far below
)

var errMember = errors.New("not a member of the index")

// encode returns the task's member: its 16 id bytes, then kind, queue, owner and subject. It does not change during the
// task's life.
func encode(t task.Task) string {
	queue := ""
	if t.Queue != "" && t.Queue != defaultQueue { // another program's row with none has the default one
		queue = part(t.Queue)
	}
	return string(t.ID[:]) + strings.Join([]string{part(t.Kind), queue, part(t.Owner), t.Subject}, separator)
}

// part keeps a separator out of a part that another follows, and stands for an empty kind or owner. Rows that other programs
// insert may hold either; their tasks have to be indexed all the same. The subject comes last and needs no care.
func part(s string) string {
	if s == "" {
		return "?"
	}
	return strings.ReplaceAll(s, separator, "?")
}

// decode reads a member as it stands in a set; Err is set, and the names are empty, if it is none of ours.
func decode(member string, score float64) task.Entry {
	e := task.Entry{Member: member, Score: scoreOf(score)}
	parts := strings.SplitN(member[min(idBytes, len(member)):], separator, 4)
	if len(parts) != 4 || len(member) > maxMember || parts[0] == "" || parts[1] == defaultQueue || parts[2] == "" {
		e.Err = fmt.Errorf("%q: %w", member[:min(len(member), 64)], errMember)
		return e
	}
	copy(e.ID[:], member)
	e.Kind, e.Queue, e.Owner, e.Subject = parts[0], parts[1], parts[2], parts[3]
	if e.Queue == "" {
		e.Queue = defaultQueue
	}
	return e
}
