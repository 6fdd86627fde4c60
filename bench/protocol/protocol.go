// Package protocol is what the benchmark says to the processes that it measures: one JSON object a line each way.
package protocol

import "github.com/duetime/duetime/bench/queue"

// Request is one line to a driver. The numbers of its jobs are First, First+1, …; job i is due Step µs after job i-1, and
// belongs to owner i / PerOwner.
//
//	schedule   makes Count jobs in bulk                                                   answers Jobs, Micros
//	accept     makes jobs for Seconds from Callers, Bulk at a time, a durable row first   answers Jobs, Micros
//	           Own: one by one, in a transaction with a row of the caller's own
//	move       moves the Count jobs to Due and later, for Seconds from Callers, one by one answers Jobs, Micros
//	moveowner  moves the Count jobs by Step, for Seconds from Callers, an owner's at once answers Jobs, Micros
//	read       reads owners for Seconds from Callers, Fresh: after what is due of them    answers Jobs, Micros, Took
//	work       begins to run what is due; Effect: write to MySQL                        answers at once
//	seen       answers Started, Done, Last, if asked Lag; or why the work has ended
//	marks      answers Marks, with a Count those of its jobs at least
//	stop       ends the work gracefully and the process
type Request struct {
	Op       string  `json:"op"`
	First    int64   `json:"first"`
	Count    int64   `json:"count"`
	Due      int64   `json:"due"`  // Unix µs
	Step     int64   `json:"step"` // µs
	PerOwner int64   `json:"perOwner"`
	Callers  int     `json:"callers"`
	Seconds  float64 `json:"seconds"`
	Bulk     int     `json:"bulk"`
	Effect   bool    `json:"effect"`
	Lag      bool    `json:"lag"`
	Own      bool    `json:"own"`
	Fresh    bool    `json:"fresh"`
}

// Response is one line from a driver; Error says why it could not be done.
type Response struct {
	Error   string       `json:"error,omitempty"`
	Jobs    int64        `json:"jobs,omitempty"`
	Micros  int64        `json:"micros,omitempty"`
	Took    []int64      `json:"took,omitempty"` // µs of each call
	Started int64        `json:"started,omitempty"`
	Done    int64        `json:"done,omitempty"`
	Last    int64        `json:"last,omitempty"`  // Unix µs of the last effect's commit
	Lag     []Bucket     `json:"lag,omitempty"`   // if the system measures by itself when effects commit
	Marks   []queue.Mark `json:"marks,omitempty"` // as [{"ID":…,"Start":…,"Done":…}], µs after the due time
}

// Bucket says how many effects committed within so many seconds after the due time.
type Bucket struct {
	Within float64 `json:"within"`
	Count  uint64  `json:"count"`
}
