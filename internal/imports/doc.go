// Package imports makes tasks of what waits in another system's Redis: in a sorted set of the service's own (ZSet), or in
// asynq's scheduled set (Asynq).
//
// It owns the reading of these sources and the ids of imported tasks. It promises:
//
//  1. It never writes to a source.
//  2. A member that stays in its set during the whole run, under one score, is read once or more.
//  3. A member makes one task. The task's id is derived from the source's name and the member (idOf), so a run after an
//     interrupted one, or beside another, finds the row: pending, ended, or moved meanwhile. A member whose due time is
//     further back than finished rows are kept might have a purged row, so it makes no task unless Config.Overdue is set.
//     One gap is left: a task that was cancelled, or ran ahead of the source's due time because somebody moved it, and
//     whose row was purged, while its member still stands in the source.
//  4. What can't be read is reported with its reason, and does not keep the other members from being imported.
//
// A member that moves from behind the run's place in the set to before it is missed: writers that still change the source
// need another run once they have ended.
//
// The package knows no flags and no terminal: cmd/duetime has them.
package imports
