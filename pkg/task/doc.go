// Package task holds the vocabulary of duetime: what a task is, which states it can be in, which transitions are
// legal, how its next try is timed, and the words that the stages exchange about it (hints, index entries, scores).
//
// It is pure: no database, no network, no clock of its own. Every moment it needs is passed in, and is a moment of
// the database's clock. All values are safe to copy; nothing here is shared between goroutines.
package task
