package consoleweb

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/console"
)

// nowLine is the picture of lag and of what is due, on one axis that now parts. Places along the axis are in percent of a side:
// texts keep their size however wide the page is. Curves stand in boxes of lineUnits by lineHeight, which are stretched.
type nowLine struct {
	AtMs, LengthMs int64 // of the figures, and of a side

	LagMarks, DueMarks  []lineMark
	LagTop, DueTop      float64 // the highest values of the scales
	Area99, Area50      string  // below the curves of p99 and p50
	P99, Late           string  // the curve of p99, and the parts of it that are late
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

	Work, To string
}

const (
	lineUnits  = 1000
	lineHeight = 144 // of both plots
	stripUnits = 120 // of a side of a row's strip
	stripPeak  = 20
	lineLinks  = 6 // on a phone a side has room for so many that fingers can tell apart
	maxDeploys = 3
)

// lagMarks are the names on the scale of lag, in milliseconds.
func lagMarks() []float64 {
	return []float64{1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000}
}

func rounded(f float64) int64 { return int64(math.Round(f)) }

// draw makes the picture.
func (n *nowView) draw(v *visit) nowLine {
	l := nowLine{AtMs: n.AtMs, LengthMs: n.length.Milliseconds()}
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

// lagY is the height of a lag on a logarithmic scale from 1 ms on.
func (l *nowLine) lagY(ms float64) float64 {
	return lineHeight * (1 - math.Log10(max(1, ms))/math.Log10(l.LagTop))
}

// dueY is the height of some tasks on a logarithmic scale: beside a burst the others can be seen.
func (l *nowLine) dueY(tasks float64) float64 {
	return lineHeight * (1 - math.Log1p(tasks)/math.Log1p(l.DueTop))
}

// drawLag draws what was.
func (n *nowView) drawLag(v *visit, l *nowLine) {
	highest, fullest := 0.0, int64(1)
	for _, s := range n.Lag.Steps {
		highest, fullest = max(highest, s.P99), max(fullest, s.Fired)
	}
	for _, ms := range lagMarks() {
		if l.LagTop = ms; ms >= max(highest, 10_000) {
			break
		}
	}
	for _, ms := range lagMarks() {
		if ms <= l.LagTop {
			l.LagMarks = append(l.LagMarks, lineMark{l.lagY(ms), v.Span(int64(ms)), ms == lateMs})
		}
	}
	const bar = 32 // height of the fullest one
	var fired, late strings.Builder
	stepMs := n.step.Milliseconds()
	for _, s := range n.Lag.Steps {
		x := l.was(s.AtMs)
		w := l.was(s.AtMs+stepMs) - x
		if w <= 0 {
			continue
		}
		text := v.Clock(s.AtMs) + ": " + v.T("now.fired", v.N(s.Fired))
		if s.Fired > 0 {
			h := bar * math.Log1p(float64(s.Fired)) / math.Log1p(float64(fullest))
			fmt.Fprintf(&fired, "M%.1f 0h%.1fv%.1fh-%.1fz", x, w*.86, h, w*.86)
			if s.Late > 0 {
				fmt.Fprintf(&late, "M%.1f 0h%.1fv%.1fh-%.1fz", x, w*.86, max(2, h*float64(s.Late)/float64(s.Fired)), w*.86)
			}
			text += " · p50 " + v.Ms(s.P50) + " · p99 " + v.Ms(s.P99) + " · " + v.T("lag.max") + " " + v.Ms(s.Max)
		}
		l.Was = append(l.Was, lineStep{percent(x / 10), percent(w / 10), text})
	}
	l.Fired, l.FiredLate = fired.String(), late.String()
	fires := func(s console.LagStep) bool { return s.Fired > 0 }
	p50, p99 := func(s console.LagStep) float64 { return s.P50 }, func(s console.LagStep) float64 { return s.P99 }
	l.Area99, l.Area50 = l.curve(n, true, fires, p99), l.curve(n, true, fires, p50)
	l.P99 = l.curve(n, false, fires, p99)
	l.Late = l.curve(n, false, func(s console.LagStep) bool { return s.P99 > lateMs }, p99)
}

// curve goes through the values of the steps that count, or around the area below them. Other steps interrupt it.
func (l *nowLine) curve(n *nowView, area bool, counts func(console.LagStep) bool, of func(console.LagStep) float64) string {
	var b strings.Builder
	foot := fmt.Sprintf("V%d", lineHeight)
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
		if !counts(s) || to <= from {
			leave()
			continue
		}
		y = l.lagY(of(s))
		switch {
		case inside:
		case area:
			fmt.Fprintf(&b, "M%.1f %dV%.1f", from, lineHeight, y)
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
	l.DueTop = max(10, perStep)
	for _, s := range n.Ahead.Steps {
		l.DueTop = max(l.DueTop, float64(n.due(s)))
	}
	for mark := 1.0; mark <= l.DueTop; mark *= 10 {
		l.DueMarks = append(l.DueMarks, lineMark{Y: l.dueY(mark), Text: v.Short(int64(mark))})
	}
	if perStep > 0 {
		l.RateY = l.dueY(perStep)
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
			b, y := &bars, l.dueY(float64(tasks))
			if perStep > 0 && float64(tasks) > perStep {
				b = &over
			}
			fmt.Fprintf(b, "M%.1f %dv-%.1fh%.1fv%.1fz", x, lineHeight, lineHeight-y, w*.86, lineHeight-y)
		}
		at := min(lineLinks-1, int(x/lineUnits*lineLinks))
		had[at] += tasks
		links[at].Steps = append(links[at].Steps, lineStep{percent(x / 10), percent(w / 10), v.Clock(s.AtMs) + ": " + v.N(tasks)})
	}
	l.Bars, l.Over = bars.String(), over.String()
	for i, link := range links {
		from := l.AtMs + l.LengthMs*int64(i)/lineLinks
		to := l.AtMs + l.LengthMs*int64(i+1)/lineLinks
		if had[i] == 0 {
			l.Will = append(l.Will, link.Steps...)
			continue
		}
		link.Text = v.Clock(from) + " – " + v.Clock(to) + ": " + v.T("ahead.has", v.N(had[i]))
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
	p := &linePeak{lineMoment: lineMoment{Text: v.N(tasks)}, To: n.steps(v, top.AtMs, top.AtMs+n.Ahead.StepMs, n.Only)}
	for name, of := range top.Groups {
		if n.Only == "" && of*2 > tasks {
			p.Text = v.N(of) + " " + cleaned(name)
		}
	}
	p.Text = v.Clock(top.AtMs) + " · " + p.Text
	if work := n.work(v, tasks); work != "" {
		p.Work = v.T("ahead.takes", work)
	}
	const label, beside = 36, 3 // how far down the name reaches, and how many steps as high as that it steps aside for
	first, last := nth, nth
	for last+1 < len(steps) && last < nth+beside && l.dueY(float64(n.due(steps[last+1]))) < label {
		last++
	}
	for first > 0 && first > nth-beside && l.dueY(float64(n.due(steps[first-1]))) < label {
		first--
	}
	x := l.will(steps[last].AtMs + n.Ahead.StepMs)
	if p.Left = x > lineUnits/2; p.Left {
		x = l.will(steps[first].AtMs)
	}
	p.X = percent(x / 10)
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
		return stripPeak * math.Log1p(float64(tasks)) / math.Log1p(float64(fullest))
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
