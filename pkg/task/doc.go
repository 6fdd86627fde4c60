// Package task holds the vocabulary of duetime for services: kinds and specs, tasks and their states, recurrences, operations,
// groups, filters, limits and errors.
//
// It is pure: no database, no network, no clock of its own. Every moment it needs is passed in, and is a moment of
// the database's clock. All values are safe to copy; nothing here is shared between goroutines.
package task
