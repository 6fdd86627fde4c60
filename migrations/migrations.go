// Package migrations holds the schema of the pipeline as numbered SQL files, one folder per dialect, embedded in every
// binary. It owns no logic: internal/store applies the files, and adds to SQLite's table of tasks the columns that it declares.
// A file that was released is never edited; code from before and after a migration runs against the schema after it.
package migrations

import "embed"

// Files has the folders mysql and sqlite; each file is named <version>_<what it does>.sql.
//
//go:embed mysql/*.sql sqlite/*.sql
var Files embed.FS
