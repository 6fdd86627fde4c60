// Package recur says when a recurring task is due: a Timetable has ticks, and a Policy chooses the ticks that get a
// task.
//
// It is pure: no database, no network, no clock, no files of the host. Every moment that it needs is passed in. It
// brings its own copy of the tz database (TZVersion), so that all hosts compute the same ticks. All values are safe to
// copy, and to use from several goroutines.
//
// # Timetables
//
// Every(d, anchor) ticks at the anchor and at each multiple of d after it. It counts elapsed time and knows no zone.
//
// Cron(expr, zone) ticks when a wall clock in the zone shows a fitting time. The expression has five fields: minute,
// hour, day of month, month, day of week; or six, with the second first; or it is @hourly, @daily, @weekly, @monthly
// or @yearly. If both day fields are restricted, a day that fits one of them is enough, as in crontab(5):
// "0 0 13 * FRI" ticks on each 13th and on each Friday.
//
// The day of month may be L, the last day, or LW, the last Monday to Friday of the month. 5#2 as a day of week is the
// second Friday of the month; a fifth one is not in every month. A day that a month doesn't have skips the month: "0 0 31 * *"
// has seven ticks a year (ShortMonths); "0 0 L * *" has twelve.
//
// # When the clock changes
//
// A clock that is set forward leaves a gap: wall times that it never shows. A clock that is set back makes a fold:
// wall times that it shows twice.
//
//  1. Gap: if wall times in the gap fit, one or many, the first instant after the gap is one tick.
//  2. Fold: of two equal wall times, the first is a tick, and the second is not.
//  3. An expression that names every hour of the day, such as "*/10 * * * *" or @hourly, means an interval, not a time
//     of day. It goes on through a change: both passes of a fold have ticks, and no tick makes up for a gap.
//
// Rule 3 is what users of cron expect. Vixie cron handles jobs with a wildcard hour in this way, and FreeBSD's cron
// and Cronos do the same for intervals. Quartz and systemd pause for the repeated hour, and systemd's maintainers call
// that a bug (systemd issue 8647).
//
// Precisely: rule 3 holds at an instant if the expression fits the wall time with the change and the wall time without
// it. Changes by whole hours always satisfy this, unless the date is restricted and changes too. Lord Howe Island
// changes by half an hour: there "*/10 * * * *" goes on, while "15 * * * *" follows rules 1 and 2, and no hour loses
// its tick.
//
// The parser is github.com/netresearch/go-cron, and so is the search on a clock without changes. Its own rules for
// changes are not used: they miss gaps of half an hour and gaps at midnight, and they repeat folds.
//
// # Limits
//
// Cron ticks on whole seconds. Every takes whole milliseconds, because a row stores no fractions of them. Cron's
// search ends after nine years, which is enough for 29 February; 30 February never ticks.
package recur
