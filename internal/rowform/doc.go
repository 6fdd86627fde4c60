// Package rowform says how rows hold moments and keys. pkg/task makes new rows by it, and internal/transition changes rows by it.
package rowform
