// Package protocol holds what travels between processes, and what all processes of a schema agree on: hints and their
// addresses, index entries' scores, claims, the layout of the shards, and the names of the history's lines. It is pure, as
// pkg/task is. No service needs it.
package protocol
