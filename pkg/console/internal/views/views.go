// Package views reads what the console shows of all rows: what is ahead, how late tasks were, dead tasks, and what operators did. It
// promises to answer however many rows there are: each statement reads a bounded part of an index (spans.go). It locks nothing.
package views

import "github.com/duetime/duetime/internal/store"

// Views reads the rows of a store.
type Views struct{ Store *store.Store }
