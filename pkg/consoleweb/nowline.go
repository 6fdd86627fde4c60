package consoleweb

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/console"
)

// nowLine is the picture of lag and of what is due, on one axis that now parts. Places along the axis are in percent of a side:
// texts keep their size however wide the page is. Curves and bars stand in boxes of lineUnits by lagHeight or countHeight, which are stretched.
type nowLine struct {
	AtMs, LengthMs int64 // of the figures, and of a side

	LagMarks, Marks     []lineMark
	LagTop, Top         float64 // the highest values of the scales of lag and of counts
	Area99              string  // below the curve of p99
	P50, P99, Late      string  // curves, and the parts of p99's that are late
	Fired, FiredLate    string  // bars, as the next two
	Bars, Over          string
	RateY               float64 // of what the workers did under load in a step; 0: it is not known
	Was, Will           []lineStep
	Links               []lineLink
	WasTicks, WillTicks []lineMoment
	Deploys             []lineMoment
	Peak                *linePeak
}

// lineMark is a height of a scale with its name.
type lineMark struct {
	Y    float64
	Text string
	Late bool
}

// lineStep is a step of the axis, with what it has.
type lineStep struct {
	X, W string // in percent
	Text string
}

// lineLink leads to the tasks of some steps.
type lineLink struct {
	Text, To string
	Steps    []lineStep
}

// lineMoment is a moment of the axis with its name.
type lineMoment struct {
	X    string // in percent
	Text string
	Left bool // the name stands to the left of it
	Near bool // a phone has no room for the name beside now's
}

// linePeak is the fullest step ahead.
type linePeak struct {
	lineMoment

	To, Work  string
	HasWorker bool
}

const (
	lineUnits   = 1000
	lagHeight   = 78
	countHeight = 88  // on both sides, above one foot
	markRoom    = 11  // px of a name on a scale
	minLag      = .1  // ms, where the scale begins
	stripUnits  = 120 // of a side of a row's strip
	stripPeak   = 20
	lineLinks   = 6 // on a phone a side has room for so many that fingers can tell apart
	maxDeploys  = 3
)

// lagMarks are the names on the scale of lag, in milliseconds.
func lagMarks() []float64 {
	return []float64{minLag, 1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000}
}

func rounded(f float64) int64 { return int64(math.Round(f)) }

// draw makes the picture.
func (n *nowView) draw(v *visit) nowLine {
	l := nowLine{AtMs: n.AtMs, LengthMs: n.length.Milliseconds()}
	l.Top = max(10, n.Ahead.CapacityLow*n.step.Seconds(), n.usual())
	l.mark(v)
	n.drawLag(v, &l)
	n.drawDue(v, &l)
	for at := range walls(time.UnixMilli(l.AtMs-l.LengthMs).In(v.zone), n.tick) {
		x := float64(at.UnixMilli()-l.AtMs) / float64(l.LengthMs) * 100
		if x >= 98 {
			break
		}
		const pill = 8   // percent beside now, where its own name stands
		const phone = 32 // where a side is narrow
		tick := lineMoment{X: percent(x), Text: at.Format("15:04"), Near: math.Abs(x) < phone}
		if x < -pill && x > -98 {
			tick.X = percent(100 + x)
			l.WasTicks = append(l.WasTicks, tick)
		} else if x > pill {
			l.WillTicks = append(l.WillTicks, tick)
		}
	}
	l.Deploys = n.deploys(v, l)
	return l
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

// was is the place of a moment on the left side, from 0 to lineUnits.
func (l *nowLine) was(ms int64) float64 {
	return lineUnits * (1 + float64(min(ms, l.AtMs)-l.AtMs)/float64(l.LengthMs))
}

// will is that on the right side.
func (l *nowLine) will(ms int64) float64 {
	return lineUnits * float64(max(ms, l.AtMs)-l.AtMs) / float64(l.LengthMs)
}

// lagY is the height of a lag on a logarithmic scale.
func (l *nowLine) lagY(ms float64) float64 {
	return lagHeight * (1 - math.Log10(max(minLag, ms)/minLag)/math.Log10(l.LagTop/minLag))
}

// usual is a height that few steps exceed, if any: beside a burst the others can be seen.
func (n *nowView) usual() float64 {
	var all []int64
	for _, s := range n.Lag.Steps {
		all = append(all, s.Fired)
	}
	for _, s := range n.Ahead.Steps {
		all = append(all, n.due(s))
	}
	all = slices.DeleteFunc(all, func(tasks int64) bool { return tasks == 0 })
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	const outliers, times = 20, 2 // one in so many steps may be one, and has a notch above so many times the highest of the others
	return float64(min(all[len(all)-1], times*all[len(all)-1-len(all)/outliers]))
}

// countY is the height of some tasks by the square root: a burst looks like one.
func (l *nowLine) countY(tasks float64) float64 { return countHeight * (1 - math.Sqrt(tasks/l.Top)) }

// mark names round counts that have room on the scale, from the highest on.
func (l *nowLine) mark(v *visit) {
	last := -2.0 * markRoom
	for ten := math.Pow10(int(math.Log10(l.Top))); ten >= 1; ten /= 10 {
		for _, times := range []float64{5, 2, 1} {
			if y := l.countY(times * ten); y >= 0 && y-last >= 2*markRoom && y <= countHeight-markRoom {
				l.Marks, last = append(l.Marks, lineMark{Y: y, Text: v.Short(int64(times * ten))}), y
			}
		}
	}
}

// bar writes a bar of some tasks. One that is higher than the scale has a notch.
func (l *nowLine) bar(b *strings.Builder, x, w float64, tasks int64) {
	y, wide := l.countY(float64(tasks)), w*.86
	if y < 0 {
		const above, notch = 10, 3
		fmt.Fprintf(b, "M%.1f %dV0h%.1fV%dz", x, above, wide, above)
		y = above + notch
	}
	fmt.Fprintf(b, "M%.1f %dV%.1fh%.1fV%dz", x, countHeight, y, wide, countHeight)
}

// drawLag draws what was.
func (n *nowView) drawLag(v *visit, l *nowLine) {
	highest := 0.0
	for _, s := range n.Lag.Steps {
		highest = max(highest, s.P99)
	}
	for _, ms := range lagMarks() {
		if l.LagTop = ms; ms >= max(highest, 10_000) {
			break
		}
	}
	last := -float64(markRoom)
	for _, ms := range slices.Backward(lagMarks()) {
		y, text := l.lagY(ms), v.Span(int64(ms))
		if ms > l.LagTop || y-last < markRoom {
			continue
		}
		if ms < 1 {
			text = v.Ms(ms)
		}
		l.LagMarks, last = append(l.LagMarks, lineMark{y, text, ms == lateMs}), y
	}
	var fired, late strings.Builder
	stepMs := n.step.Milliseconds()
	for _, s := range n.Lag.Steps {
		x := l.was(s.AtMs)
		w := l.was(s.AtMs+stepMs) - x
		if w <= 0 || x < 0 { // the edge would cut the oldest step
			continue
		}
		text := v.Clock(s.AtMs) + ": " + v.T("now.fired", v.About(s.Fired, n.Lag.Sampled))
		if s.Fired > 0 {
			l.bar(&fired, x, w, s.Fired)
			if s.Late > 0 {
				l.bar(&late, x, w, s.Late)
			}
			text += " · p50 " + v.Ms(s.P50) + " · p99 " + v.Ms(s.P99) + " · " + v.T("lag.max") + " " + v.Ms(s.Max)
		}
		l.Was = append(l.Was, lineStep{percent(x / 10), percent(w / 10), text})
	}
	l.Fired, l.FiredLate = fired.String(), late.String()
	fires := func(s console.LagStep) bool { return s.Fired > 0 }
	p50, p99 := func(s console.LagStep) float64 { return s.P50 }, func(s console.LagStep) float64 { return s.P99 }
	l.Area99 = l.curve(n, true, fires, p99)
	l.P50, l.P99 = l.curve(n, false, fires, p50), l.curve(n, false, fires, p99)
	l.Late = l.curve(n, false, func(s console.LagStep) bool { return s.P99 > lateMs }, p99)
}

// curve goes through the values of the steps that count, or around the area below them. Other steps interrupt it.
func (l *nowLine) curve(n *nowView, area bool, counts func(console.LagStep) bool, of func(console.LagStep) float64) string {
	var b strings.Builder
	foot := fmt.Sprintf("V%d", lagHeight)
	inside, end, y := false, 0.0, 0.0
	leave := func() {
		if !inside {
			return
		}
		inside = false
		fmt.Fprintf(&b, "L%.1f %.1f", end, y)
		if area {
			b.WriteString(foot)
		}
	}
	for _, s := range n.Lag.Steps {
		from, to := l.was(s.AtMs), l.was(s.AtMs+n.step.Milliseconds())
		if !counts(s) || to <= from || from < 0 {
			leave()
			continue
		}
		y = l.lagY(of(s))
		switch {
		case inside:
		case area:
			fmt.Fprintf(&b, "M%.1f %dV%.1f", from, lagHeight, y)
		default:
			fmt.Fprintf(&b, "M%.1f %.1f", from, y)
		}
		fmt.Fprintf(&b, "L%.1f %.1f", (from+to)/2, y)
		inside, end = true, to
	}
	leave()
	return b.String()
}

// drawDue draws what will be.
func (n *nowView) drawDue(v *visit, l *nowLine) {
	perStep := n.Ahead.CapacityLow * n.step.Seconds()
	if perStep > 0 {
		l.RateY = max(1, l.countY(perStep)) // 0 is none
	}
	var bars, over strings.Builder
	links := make([]lineLink, lineLinks)
	had := make([]int64, lineLinks)
	for _, s := range n.Ahead.Steps {
		tasks, x := n.due(s), l.will(s.AtMs)
		w := l.will(s.AtMs+n.Ahead.StepMs) - x
		if w <= 0 || x >= lineUnits {
			continue
		}
		if tasks > 0 {
			b := &bars
			if perStep > 0 && float64(tasks) > perStep {
				b = &over
			}
			l.bar(b, x, w, tasks)
		}
		at := min(lineLinks-1, int(x/lineUnits*lineLinks))
		had[at] += tasks
		links[at].Steps = append(links[at].Steps, lineStep{percent(x / 10), percent(w / 10), v.Clock(s.AtMs) + ": " + n.has(v, tasks)})
	}
	l.Bars, l.Over = bars.String(), over.String()
	for i, link := range links {
		from := l.AtMs + l.LengthMs*int64(i)/lineLinks
		to := l.AtMs + l.LengthMs*int64(i+1)/lineLinks
		if had[i] == 0 {
			l.Will = append(l.Will, link.Steps...)
			continue
		}
		link.Text = v.Clock(from) + " – " + v.Clock(to) + ": " + v.T("ahead.has", n.has(v, had[i]))
		link.To = n.steps(v, from, to, n.Only)
		l.Links = append(l.Links, link)
	}
	l.Peak = n.peak(v, l)
}

// peak names the fullest step, if it stands out.
func (n *nowView) peak(v *visit, l *nowLine) *linePeak {
	steps, nth := n.Ahead.Steps, 0
	for i, s := range steps {
		if n.due(s) > n.due(steps[nth]) {
			nth = i
		}
	}
	const standsOut = 3 // times the mean
	if n.Due == 0 || n.due(steps[nth])*int64(len(steps)) < standsOut*n.Due {
		return nil
	}
	top, tasks := steps[nth], n.due(steps[nth])
	p := &linePeak{lineMoment: lineMoment{Text: n.has(v, tasks)}, To: n.steps(v, top.AtMs, top.AtMs+n.Ahead.StepMs, n.Only), HasWorker: true}
	for name, of := range top.Groups {
		if n.Only == "" && of*2 > tasks {
			p.Text, p.HasWorker = v.About(of, n.Ahead.Sampled)+" "+cleaned(name), n.hasWorker(name)
		} else if n.Only == name {
			p.HasWorker = n.hasWorker(name)
		}
	}
	p.Text = v.Clock(top.AtMs) + " · " + p.Text
	if work := n.work(v, tasks); !p.HasWorker {
		p.Work = v.T("noworker")
	} else if work != "" {
		p.Work = v.T("ahead.takes", work)
	}
	x := l.will(top.AtMs + n.Ahead.StepMs/2) // its name stands above all bars
	p.X, p.Left = percent(x/10), x > lineUnits/2
	return p
}

// deploys are the newest versions that began in the time that is shown. Roles of one version that began after each other are one.
func (n *nowView) deploys(v *visit, l nowLine) (all []lineMoment) {
	last := ""
	for _, d := range n.Deploys {
		if x := l.was(d.AtMs); d.Version != last && x > 0 {
			all = append(all, lineMoment{X: percent(x / 10), Text: v.T("now.deploy", cleaned(d.Version)), Left: x > lineUnits/2})
			last = d.Version
		}
	}
	return all[max(0, len(all)-maxDeploys):]
}

// strip is the same picture of one group in a row of the table: outlines of what was, what of it was late, and what will be. All
// rows have one scale.
type strip struct{ Was, Late, Will string }

func (n *nowView) strip(name string, fullest int64) strip {
	over := n.Lag.Groups[name]
	height := func(tasks int64) float64 {
		return stripPeak * math.Sqrt(float64(tasks)/float64(fullest))
	}
	w := stripUnits * float64(n.step) / float64(n.length)
	var was, late, will outline
	for i, s := range over.Steps {
		x := stripUnits - float64(len(over.Steps)-i)*w
		was.bar(x, w, height(s.Fired))
		late.bar(x, w, min(height(s.Fired), height(s.Late)))
	}
	for i, s := range n.Ahead.Steps {
		will.bar(stripUnits+float64(i)*w, w, height(s.Groups[name]))
	}
	return strip{was.String(), late.String(), will.String()}
}

// outline is the path of bars beside each other: it takes few letters for one of them.
type outline struct {
	path   strings.Builder
	height float64 // of the last bar
}

const stripFoot = 24

func (o *outline) bar(x, w, h float64) {
	if h == 0 {
		if o.height > 0 {
			fmt.Fprintf(&o.path, "V%d", stripFoot)
		}
		o.height = 0
		return
	}
	if o.height == 0 {
		fmt.Fprintf(&o.path, "M%.4g %d", x, stripFoot)
	}
	fmt.Fprintf(&o.path, "V%.3gh%.3g", stripFoot-h, w)
	o.height = h
}

// String closes the path.
func (o *outline) String() string {
	if o.height > 0 {
		return fmt.Sprintf("%sV%d", o.path.String(), stripFoot)
	}
	return o.path.String()
}
