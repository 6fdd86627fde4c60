package console

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// Stats counts rows.
type Stats struct {
	WindowMs int64            `json:"window_ms"` // of kinds and lag; 0: all rows
	States   map[string]int64 `json:"states"`    // of all rows; has each state
	Kinds    map[string]int64 `json:"kinds"`     // rows that changed within the window
	Fired    int64            `json:"fired"`     // rows done within it
	LagMs    Lag              `json:"lag_ms"`    // of these; zero when there are none
}

// Lag is how late tasks fired, in milliseconds.
type Lag struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func lagOf(p50, p99, highest time.Duration) Lag {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return Lag{ms(p50), ms(p99), ms(highest)}
}

// Stats reads an index entry of each row, and all rows that changed within the window; without a window (0) it reads the
// whole table, which takes seconds for millions of rows. It locks nothing.
func (c *Console) Stats(ctx context.Context, window time.Duration) (Stats, error) {
	st, err := c.store.Stats(ctx, window)
	return Stats{window.Milliseconds(), st.States, st.Kinds, st.Fired, lagOf(st.LagP50, st.LagP99, st.LagMax)}, err
}

// Unhandled is how many pending tasks of a queue and kind wait for a worker that knows the kind.
type Unhandled struct {
	Queue string `json:"queue"`
	Kind  string `json:"kind"`
	Tasks int64  `json:"tasks"`
}

func unhandledOf(read []protocol.Unhandled) []Unhandled {
	all := make([]Unhandled, len(read))
	for i, u := range read {
		all[i] = Unhandled(u)
	}
	return all
}

const maxNamedKinds = 3 // in one line; the line counts the others

// UnhandledText names the kinds with most tasks that wait for a worker of their kind; empty if no task waits.
func UnhandledText(all []Unhandled) string {
	var names []string
	for i, u := range all {
		if i == maxNamedKinds {
			names = append(names, fmt.Sprintf("and %d more kinds", len(all)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s in queue %s: %d waiting", u.Kind, u.Queue, u.Tasks))
	}
	return strings.Join(names, ", ")
}
