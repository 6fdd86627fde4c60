package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// style marks the texts of a frame.
type style struct {
	title, head, good, bad, dim func(...string) string
}

var (
	plain    = style{join, join, join, join, join}
	coloured = style{
		title: lipgloss.NewStyle().Reverse(true).Render,
		head:  lipgloss.NewStyle().Bold(true).Render,
		good:  lipgloss.NewStyle().Foreground(lipgloss.Color("2")).Render,
		bad:   lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true).Render,
		dim:   lipgloss.NewStyle().Faint(true).Render,
	}
)

func join(parts ...string) string { return strings.Join(parts, " ") }

// lateAge is the age from which an oldest due task is shown as bad, the default of daemon.grace.
const lateAge = 2 * time.Second

const titleFrame = len(" duetime top  ") + len("  ")

// draw returns the text: height lines, none wider than width, which is at least 60 columns.
func (p picture) draw(width, height int, s style) string {
	moment := p.moment()
	width = max(width, 60)
	lines := slices.Concat(
		[]string{s.title(fit(fmt.Sprintf(" duetime top  %-*s %s ", max(width-titleFrame-len(moment), 0), p.Namespace, moment), width)), ""},
		p.drawRates(width, s), []string{""},
		p.drawStates(s), []string{""},
		p.drawLeaders(s), []string{""},
		p.drawShards(width, s), []string{""},
	)
	foot := fmt.Sprintf(" rates and lag of the last %v, read in %v", millis(p.WindowMs), millis(p.TookMs))
	if p.interval > 0 {
		foot += fmt.Sprintf(", again each %v   q ends", p.interval)
	}
	end := []string{s.dim(cut(foot, width))}
	if p.err != nil {
		end = []string{s.bad(cut(" figures are old: "+oneLine(p.err.Error()), width))}
	}
	if waiting := console.UnhandledText(p.Unhandled); waiting != "" {
		end = append([]string{s.bad(cut(" no handler for "+printable(waiting), width))}, end...)
	}
	if p.IndexErr != nil {
		end = append([]string{s.bad(cut(" Redis is away: "+oneLine(p.IndexErr.Error()), width))}, end...)
	}
	room := height - len(lines) - len(end)
	lines = append(append(lines, p.drawQueues(room-1, s)...), "")
	for len(lines) < height-len(end) && p.interval > 0 {
		lines = append(lines, "")
	}
	lines = append(lines, end...)
	fits := lipgloss.NewStyle().MaxWidth(width)
	for i, line := range lines {
		lines[i] = fits.Render(line) // for a terminal narrower than 60 columns
	}
	return strings.Join(lines, "\n")
}

func (p picture) drawRates(width int, s style) []string {
	const column = 24 // of the numbers on the left
	rate := func(n int64) string { return fmt.Sprintf("%.1f/s", float64(n)/millis(p.WindowMs).Seconds()) }
	oldest := "none"
	if age, ok := p.oldest(); ok {
		oldest = span(age)
		if age > lateAge {
			oldest = s.bad(oldest)
		}
	}
	lag := func(ms float64) string {
		if p.Fired == 0 {
			return "-" // 0 ms would look like a good figure
		}
		return span(millis(ms))
	}
	chart := width - column - 22
	return []string{
		fmt.Sprintf(" %s %11s %s  lag p50 %10s", s.head("fired     "), rate(p.Fired), fit(" "+sparks(p.fired, chart-1), chart), lag(p.LagMs.P50)),
		fmt.Sprintf(" %s %11s %s  lag p99 %10s", s.head("scheduled "), rate(p.Scheduled), fit("", chart), lag(p.LagMs.P99)),
		fmt.Sprintf(" %s %s %s  lag max %10s", s.head("oldest due"), lipgloss.PlaceHorizontal(11, lipgloss.Right, oldest), fit("", chart), lag(p.LagMs.Max)),
	}
}

// oldest returns how long the oldest due task has been due, in the queues that are not paused; false for none.
func (p picture) oldest() (age time.Duration, ok bool) {
	for _, q := range p.Queues {
		if q.PausedMs == nil && q.OldestMs != nil {
			age, ok = max(age, p.since(*q.OldestMs)), true
		}
	}
	return age, ok
}

// moment is when the frame was read, in the operator's zone.
func (p picture) moment() string {
	at := time.UnixMilli(p.NowMs).UTC()
	if p.zone != nil {
		at = at.In(p.zone)
	}
	return at.Format("2006-01-02 15:04:05 MST")
}

// since is the age of a moment, on the database's clock.
func (p picture) since(ms int64) time.Duration { return millis(p.NowMs - ms) }

func millis[N int64 | float64](n N) time.Duration { return time.Duration(n * N(time.Millisecond)) }

// span shows a duration, with one decimal if it is between a second and a minute.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

// sparks is a one-line chart of the newest values.
func sparks(values []int64, width int) string {
	if len(values) < 2 {
		return "" // one value is no chart
	}
	values = values[max(0, len(values)-width):]
	const levels = "▁▂▃▄▅▆▇█"
	highest := max(slices.Max(values), 1)
	var b strings.Builder
	for _, v := range values {
		b.WriteRune([]rune(levels)[v*7/highest])
	}
	return b.String()
}

// counted shows a number, or that it is a lower bound.
func counted(n int64, cut bool) string {
	if cut {
		return thousands(n) + "+"
	}
	return thousands(n)
}

func (p picture) drawStates(s style) []string {
	line := ""
	for state := task.Pending; state <= task.Dead; state++ {
		n := counted(p.States[state.String()], p.States[state.String()] >= p.MaxState)
		if state == task.Dead && p.States[state.String()] > 0 {
			n = s.bad(n)
		}
		line += fmt.Sprintf(" %s %s  ", s.head(state.String()), n)
	}
	return []string{line}
}

func (p picture) drawLeaders(s style) []string {
	lines := []string{s.head(" LEADER   EPOCH  SHARDS AT IT  LED BY")}
	for _, l := range p.Leaders {
		at := ""
		if l.Shards != nil {
			at = fmt.Sprintf("%d of %d", *l.Shards, *l.Of)
			if *l.Shards < *l.Of {
				at = s.bad(at)
			}
		}
		by := printable(l.Host)
		if l.Host == "" {
			by = s.bad("no living process")
		}
		if l.Epoch == 0 {
			by = s.bad("nobody has ever led")
		}
		lines = append(lines, fmt.Sprintf(" %-8s %5d  %s  %s", l.Name, l.Epoch, fit(at, 12), by))
	}
	return lines
}

func (p picture) drawShards(width int, s style) []string {
	var total, lowest, highest int64
	whole := 0
	var marks strings.Builder
	entries := make([]int64, len(p.Shards))
	for i, sh := range p.Shards {
		entries[i] = sh.Due
		total += sh.Due
		switch sh.Marker {
		case console.MarkerComplete:
			whole++
			marks.WriteString("■")
		case console.MarkerBuilding:
			marks.WriteString("◪")
		default:
			marks.WriteString("□")
		}
	}
	if len(entries) > 0 {
		lowest, highest = slices.Min(entries), slices.Max(entries)
	}
	strip := max(min(len(p.Shards), width-62), 8)
	state := s.good("all whole")
	if whole < len(p.Shards) {
		state = s.bad(fmt.Sprintf("%d of %d whole", whole, len(p.Shards)))
	}
	return []string{
		fmt.Sprintf(" %s %s  %s entries, %s to %s a shard", s.head("shards "), fit(cut(bars(entries), strip), strip),
			thousands(total), thousands(lowest), thousands(highest)),
		fmt.Sprintf(" %s %s  %s", s.head("markers"), fit(cut(marks.String(), strip), strip), state),
	}
}

// bars is a chart of one bar for each value.
func bars(values []int64) string {
	if len(values) < 2 {
		return strings.Repeat("█", len(values))
	}
	return sparks(values, len(values))
}

// drawQueues shows as many queues as there is room for.
func (p picture) drawQueues(room int, s style) []string {
	if room < 2 {
		return nil
	}
	lines := []string{s.head(fmt.Sprintf(" %-24s %9s  %9s", "QUEUE", "DUE NOW", "OLDEST"))}
	for i, q := range p.Queues {
		if len(lines) >= room-1 && i < len(p.Queues)-1 {
			return append(lines, s.dim(fmt.Sprintf(" and %d more", len(p.Queues)-i)))
		}
		lines = append(lines, p.drawQueue(q, s))
	}
	return lines
}

func (p picture) drawQueue(q console.Queue, s style) string {
	oldest := "-"
	if q.OldestMs != nil {
		oldest = span(p.since(*q.OldestMs))
	}
	line := fmt.Sprintf(" %s %9s  %9s", fit(printable(q.Queue), 24), counted(q.Due, q.Cut), oldest)
	if q.PausedMs != nil {
		line += s.bad("  paused for " + short(p.since(*q.PausedMs)))
	}
	if q.Workers == 0 && q.Due > 0 {
		line += s.bad("  no worker reports")
	}
	if q.Degraded > 0 {
		line += s.bad(fmt.Sprintf("  degraded, workers that look in MySQL: %d", q.Degraded))
	}
	return line
}
