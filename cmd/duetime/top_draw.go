package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/pkg/task"
)

// style is how a frame marks its texts.
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

// late is from when on an oldest due task is shown as bad: the daemon's default grace is as long.
const late = 2 * time.Second

// draw makes the frame's text: as many lines as the height, none longer than the width, at least 60 columns.
func (f frame) draw(width, height int, s style) string {
	width = max(width, 60)
	lines := slices.Concat(
		[]string{s.title(fit(fmt.Sprintf(" duetime top  %-*s %s ", width-39, f.namespace, f.Now.Format("2006-01-02 15:04:05 UTC")), width)), ""},
		f.drawRates(width, s), []string{""},
		f.drawStates(s), []string{""},
		f.drawLeaders(s), []string{""},
		f.drawShards(width, s), []string{""},
	)
	foot := fmt.Sprintf(" rates and lag of the last %v, read in %v", topWindow, f.took.Round(time.Millisecond))
	if f.rest > 0 {
		foot += fmt.Sprintf(", again each %v   q ends", f.rest)
	}
	end := []string{s.dim(cut(foot, width))}
	if f.err != nil {
		end = []string{s.bad(cut(" figures are old: "+oneLine(f.err.Error()), width))}
	}
	if note := unhandledNote(f.Unhandled); note != "" {
		end = append([]string{s.bad(cut(" no handler for "+note, width))}, end...)
	}
	room := height - len(lines) - len(end)
	lines = append(append(lines, f.drawQueues(room-1, s)...), "")
	for len(lines) < height-len(end) && f.rest > 0 {
		lines = append(lines, "")
	}
	lines = append(lines, end...)
	fits := lipgloss.NewStyle().MaxWidth(width)
	for i, line := range lines {
		lines[i] = fits.Render(line) // of a narrow terminal
	}
	return strings.Join(lines, "\n")
}

func (f frame) drawRates(width int, s style) []string {
	const column = 24 // of the numbers on the left
	rate := func(n int64) string { return fmt.Sprintf("%.1f/s", float64(n)/topWindow.Seconds()) }
	oldest := "none"
	if age, ok := f.oldest(); ok {
		oldest = span(age)
		if age > late {
			oldest = s.bad(oldest)
		}
	}
	lag := func(d time.Duration) string {
		if f.Fired == 0 {
			return "-" // 0 ms would be praise
		}
		return span(d)
	}
	chart := width - column - 22
	return []string{
		fmt.Sprintf(" %s %11s %s  lag p50 %10s", s.head("fired     "), rate(f.Fired), fit(" "+sparks(f.fired, chart-1), chart), lag(f.LagP50)),
		fmt.Sprintf(" %s %11s %s  lag p99 %10s", s.head("scheduled "), rate(f.Scheduled), fit("", chart), lag(f.LagP99)),
		fmt.Sprintf(" %s %s %s  lag max %10s", s.head("oldest due"), lipgloss.PlaceHorizontal(11, lipgloss.Right, oldest), fit("", chart), lag(f.LagMax)),
	}
}

// oldest returns for how long the first task in line has been due, in the queues that are not paused; false for none.
func (f frame) oldest() (age time.Duration, ok bool) {
	for queue, b := range f.Backlog {
		if _, paused := f.Paused[queue]; !paused {
			age, ok = max(age, f.Now.Sub(b.Oldest)), true
		}
	}
	return age, ok
}

// span is a duration with a digit behind the point, where that says something.
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

// sparks is a chart of one line, of the newest values.
func sparks(values []int64, width int) string {
	if len(values) < 2 {
		return "" // one is no course
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

func (f frame) drawStates(s style) []string {
	line := ""
	for _, st := range []task.State{task.Pending, task.Done, task.Cancelled, task.Dead} {
		n := thousands(f.States[st])
		if st == task.Dead && f.States[st] > 0 {
			n = s.bad(n)
		}
		line += fmt.Sprintf(" %s %s  ", s.head(st.String()), n)
	}
	return []string{line}
}

func (f frame) drawLeaders(s style) []string {
	lines := []string{s.head(" LEADER   EPOCH  SHARDS AT IT")}
	for _, name := range leaders {
		at := ""
		if name == leaders[0] {
			n := 0
			for _, sh := range f.shards {
				if sh.Epoch == f.Epochs[name] {
					n++
				}
			}
			at = fmt.Sprintf("%d of %d", n, len(f.shards))
			if n < len(f.shards) {
				at = s.bad(at)
			}
		}
		if f.Epochs[name] == 0 {
			at = s.bad("nobody has ever led")
		}
		lines = append(lines, fmt.Sprintf(" %-8s %5d  %s", name, f.Epochs[name], at))
	}
	return lines
}

func (f frame) drawShards(width int, s style) []string {
	var total, most int64
	least := int64(-1)
	stand := 0
	var marks strings.Builder
	entries := make([]int64, len(f.shards))
	for i, sh := range f.shards {
		entries[i] = sh.Due
		total, most = total+sh.Due, max(most, sh.Due)
		if least < 0 || sh.Due < least {
			least = sh.Due
		}
		switch sh.Marker {
		case index.MarkerComplete:
			stand++
			marks.WriteString("■")
		case index.MarkerBuilding:
			marks.WriteString("◪")
		default:
			marks.WriteString("□")
		}
	}
	strip := max(min(len(f.shards), width-62), 8)
	state := s.good("all whole")
	if stand < len(f.shards) {
		state = s.bad(fmt.Sprintf("%d of %d whole", stand, len(f.shards)))
	}
	return []string{
		fmt.Sprintf(" %s %s  %s entries, %s to %s a shard", s.head("shards "), fit(cut(bars(entries), strip), strip),
			thousands(total), thousands(max(least, 0)), thousands(most)),
		fmt.Sprintf(" %s %s  %s", s.head("markers"), fit(cut(marks.String(), strip), strip), state),
	}
}

// bars shows the values beside each other.
func bars(values []int64) string {
	if len(values) < 2 {
		return strings.Repeat("█", len(values))
	}
	return sparks(values, len(values))
}

// drawQueues shows the queues that have something to say first, as many as there is room for.
func (f frame) drawQueues(room int, s style) []string {
	names := slices.Clone(f.queues)
	for queue := range f.Backlog {
		names = append(names, queue)
	}
	for queue := range f.Paused {
		names = append(names, queue)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(a, b string) int {
		_, pa := f.Paused[a]
		_, pb := f.Paused[b]
		return cmp.Or(-cmp.Compare(number(pa), number(pb)), -cmp.Compare(f.Backlog[a].Tasks, f.Backlog[b].Tasks))
	})
	if room < 2 {
		return nil
	}
	lines := []string{s.head(fmt.Sprintf(" %-24s %9s  %9s", "QUEUE", "DUE NOW", "OLDEST"))}
	for i, queue := range names {
		if len(lines) >= room-1 && i < len(names)-1 {
			return append(lines, s.dim(fmt.Sprintf(" and %d more", len(names)-i)))
		}
		lines = append(lines, f.drawQueue(queue, s))
	}
	return lines
}

func (f frame) drawQueue(queue string, s style) string {
	b, oldest := f.Backlog[queue], "-"
	if b.Tasks > 0 {
		oldest = span(f.Now.Sub(b.Oldest))
	}
	line := fmt.Sprintf(" %s %9s  %9s", fit(queue, 24), thousands(b.Tasks), oldest)
	if since, paused := f.Paused[queue]; paused {
		line += s.bad("  paused for " + short(f.Now.Sub(since)))
	}
	return line
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
