package witness

import "github.com/duetime/duetime/pkg/task"

// state is what a promise says of its task: either no effect, or one effect with this data, not before Due.
type state struct {
	None bool `json:"none,omitempty"`
	// Replaced says of a task without an effect that another one has taken its place, and not that it was cancelled.
	Replaced bool `json:"replaced,omitempty"`

	Due   int64 `json:"due,omitempty"`   // Unix ms; 0: any
	Later bool  `json:"later,omitempty"` // the row may be due later: a time that has passed when the row is written becomes now
	Data  int   `json:"data,omitempty"`
}

// promise is what the judge knows of one task: what was asked, and answered with yes.
type promise struct {
	Part  string   `json:"part"`
	ID    task.ID  `json:"id"` // zero for a tick, whose task the recurrence makes
	Is    state    `json:"is"`
	After []string `json:"after,omitempty"` // parts that take effect before
}

func (s state) fits(e effect) bool {
	due := e.Due.UnixMilli()
	return !s.None && s.Data == e.Data && (s.Due == 0 || s.Due == due || s.Later && s.Due < due)
}
