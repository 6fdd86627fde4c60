package pet

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The now line is a strip of time that is parted by now. Left of it stand the latest effects, as high as they were
// late. Right of it stand the tasks to come. The strip stands still for linePage, and now walks over it.
const (
	minPast   = 20 * time.Second // what is left of now: as much as is to come, within these bounds
	maxPast   = time.Minute
	linePage  = 10 * time.Second
	lineNear  = time.Minute // what comes within it is drawn to scale; the scale shrinks for what comes later
	lineEdge  = 10          // px at both ends
	lineFar   = 0.28        // part of the width for what comes after lineNear
	lineTop   = 22          // y of the greatest lateness
	lineFloor = 106         // y of the time's axis
	lineHigh  = 132         // height of the drawing
	lineLanes = 7           // rows on which tasks to come stand
	lineNames = 6           // dots at most that have a name beside them
	dotRoom   = 11          // px between two dots

	minLag = time.Millisecond
	maxLag = 100 * time.Second

	// lateBy is how late a meal is called late, by the page and by the console.
	lateBy = time.Second
)

// nowLine is a drawing of the strip.
type nowLine struct {
	now       time.Time
	from, to  time.Time // of the part that is to scale
	last      time.Time // at the right end
	perSecond float64   // px, in the part that is to scale
	near, far float64   // px
	named     bool      // the dots have names
	dots      []lineDot
	occupied  []lineBox // where no name may stand
	strings.Builder
}

// lineDot is a task or an effect.
type lineDot struct {
	class, pet, id, name, title string
	x, y                        float64
}

// drawNow draws the strip as SVG, whose colours and words the page adds: a word by data-word, a time of day by data-at.
func drawNow(now time.Time, longest time.Duration, width int, pets []Pet, over []ended) string {
	for _, p := range pets {
		if p.Meal != nil {
			longest = max(longest, time.UnixMilli(p.Meal.DueAtMs).Sub(now))
		}
	}
	past := max(minPast, min(longest, maxPast))
	l := &nowLine{now: now, from: now.Truncate(linePage).Add(-past), near: float64(width - 2*lineEdge)}
	l.to = l.from.Add(past + linePage + min(longest, lineNear))
	l.last = now.Add(longest)
	if longest > lineNear {
		l.far = lineFar * l.near
		l.near -= l.far
	}
	l.perSecond = l.near / l.to.Sub(l.from).Seconds()
	_, _ = fmt.Fprintf(l, `<svg xmlns="http://www.w3.org/2000/svg" class="line" role="img" viewBox="0 0 %d %d" width="%d" height="%d" data-now="%d" data-second="%.3f">`,
		width, lineHigh, width, lineHigh, now.UnixMilli(), l.perSecond)
	l.scale(width)
	over = slices.DeleteFunc(slices.Clone(over), func(e ended) bool { return e.Event != eventFinished || e.at().Before(l.from) })
	pets = slices.DeleteFunc(slices.Clone(pets), func(p Pet) bool { // a meal that ended since they were read has one dot all the same
		return p.Meal == nil || slices.ContainsFunc(over, func(e ended) bool { return e.TaskID == p.Meal.TaskID.String() })
	})
	l.named = len(pets)+len(over) <= lineNames
	for _, p := range pets {
		l.coming(p)
	}
	for _, e := range slices.Backward(over) { // a newer end does not move an older one's dot
		l.past(e)
	}
	l.occupied = append(l.occupied, lineBox{l.x(now), l.x(now) + 10, 0, lineFloor}) // behind a dot at now there is no room either
	for _, d := range l.dots {
		l.occupied = append(l.occupied, lineBox{d.x - 5, d.x + 5, d.y - 5, d.y + 5})
	}
	for _, d := range l.dots {
		l.dot(d)
	}
	_, _ = fmt.Fprintf(l, `<g class="walker" data-x="%.1f"><path d="M%[1]g 14V%[2]d"/><circle cx="%[1]g" cy="%[2]d" r="3"/><text x="%[1]g" y="10" data-word="now">now</text></g></svg>`,
		tenth(l.x(now)), lineFloor)
	return l.String()
}

// x is where a moment stands. Moments that are out of the strip stand at its ends.
func (l *nowLine) x(at time.Time) float64 {
	if !at.After(l.to) {
		return lineEdge + l.perSecond*max(0, at.Sub(l.from).Seconds())
	}
	if l.far == 0 || !l.last.After(l.to) {
		return lineEdge + l.near
	}
	shrunk := func(t time.Time) float64 { return math.Log1p(t.Sub(l.to).Seconds() / lineNear.Seconds()) }
	return lineEdge + l.near + l.far*min(1, shrunk(at)/shrunk(l.last))
}

// height is where a lateness stands.
func height(lag time.Duration) float64 {
	part := math.Log(max(1, float64(lag)/float64(minLag))) / math.Log(float64(maxLag)/float64(minLag))
	return lineFloor - 8 - (lineFloor-8-lineTop)*min(1, part)
}

// scale draws the axis, with times that the width has room for, and the lateness.
func (l *nowLine) scale(width int) {
	for label, lag := range map[string]time.Duration{"1 ms": minLag, "100 ms": 100 * time.Millisecond, "10 s": 10 * time.Second} {
		y := height(lag)
		_, _ = fmt.Fprintf(l, `<path class="lag" d="M%d %.1fH%.1f"/><text class="lag" x="%[1]d" y="%.1[4]f">%s</text>`, lineEdge, tenth(y), tenth(l.x(l.now)), tenth(y-3), label)
	}
	_, _ = fmt.Fprintf(l, `<path class="axis" d="M0 %dH%d"/>`, lineFloor, width)
	const room = 62 // px of a time of day
	step := linePage
	for l.perSecond*step.Seconds() < room {
		step *= 2
	}
	for at := l.from.Truncate(step); !at.After(l.to); at = at.Add(step) {
		if x := l.x(at); x > lineEdge+room/2 && x < lineEdge+l.near-room/2 {
			l.tick(x, at, "")
		}
	}
	if l.far > 0 {
		l.tick(lineEdge+l.near+l.far-room/3, l.last, " far")
	}
}

func (l *nowLine) tick(x float64, at time.Time, class string) {
	_, _ = fmt.Fprintf(l, `<path class="tick" d="M%.1f %dv5"/><text class="tick%s" x="%[1]g" y="%[4]d" data-at="%[5]d"></text>`,
		tenth(x), lineFloor, class, lineFloor+18, at.UnixMilli())
}

// coming draws a task to come. One that is late has a line from its time to now.
func (l *nowLine) coming(p Pet) {
	due := time.UnixMilli(p.Meal.DueAtMs)
	id, _ := strconv.ParseInt(p.ID, 10, 64) // a row's id is a number
	y := lineTop + 6 + float64(id%lineLanes)*(lineFloor-lineTop-16)/(lineLanes-1)
	class, x := "future", l.x(due)
	if l.now.Sub(due) > lateBy {
		class = "late"
		_, _ = fmt.Fprintf(l, `<path class="wait" d="M%.1f %.1fH%.1f"/>`, tenth(x), tenth(y), tenth(l.x(l.now)))
	}
	l.dots = append(l.dots, lineDot{class, p.ID, p.Meal.TaskID.String(), p.Name, p.Name, x, y})
}

// past draws an effect. One that would hide another stands left of it: its height is how late it was.
func (l *nowLine) past(e ended) {
	class := "past"
	if e.lag() > lateBy {
		class = "late"
	}
	x, y := l.x(e.at()), height(e.lag())
	for slices.ContainsFunc(l.dots, func(o lineDot) bool { return math.Hypot(o.x-x, o.y-y) < dotRoom }) {
		x -= dotRoom
	}
	l.dots = append(l.dots, lineDot{class, e.PetID, e.TaskID, e.name, fmt.Sprintf("%s · %d ms", e.name, e.LagMs), x, y})
}

// dot draws a dot, and its name where there is room for it.
func (l *nowLine) dot(d lineDot) {
	_, _ = fmt.Fprintf(l, `<g class="%s" transform="translate(%g %g)" data-pet="%s" data-task="%s"><circle r="5"><title>%s</title></circle>`,
		d.class, tenth(d.x), tenth(d.y), d.pet, html.EscapeString(d.id), html.EscapeString(d.title))
	if l.named {
		l.name(d)
	}
	_, _ = l.WriteString(`</g>`)
}

// name writes a dot's name beside it, above or below: where it covers no dot, no other name and not now.
func (l *nowLine) name(d lineDot) {
	const letter, maxLetters = 7, 12 // px of a letter, and letters
	letters := []rune(d.name)
	if len(letters) > maxLetters {
		letters = append(letters[:maxLetters-1], '…')
	}
	wide := letter * float64(len(letters))
	side := -1.0 // names of the past stand left of their dots
	if d.class == "future" {
		side = 1
	}
	for _, p := range [][2]float64{{9, 4}, {-9, 4}, {1, -9}, {1, 17}} {
		x, y := side*p[0], p[1]
		box, anchor := lineBox{d.x + x, d.x + x + wide, d.y + y - 9, d.y + y + 2}, "start"
		if x < 0 {
			box.left, box.right, anchor = d.x+x-wide, d.x+x, "end"
		}
		if box.left < 0 || box.right > 2*lineEdge+l.near+l.far || box.bottom > lineFloor || slices.ContainsFunc(l.occupied, box.covers) {
			continue
		}
		l.occupied = append(l.occupied, box)
		_, _ = fmt.Fprintf(l, `<text text-anchor="%s" x="%g" y="%g">%s</text>`, anchor, x, y, html.EscapeString(string(letters)))
		return
	}
}

// lineBox is a part of the drawing.
type lineBox struct{ left, right, top, bottom float64 }

func (b lineBox) covers(o lineBox) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

func tenth(px float64) float64 { return math.Round(10*px) / 10 }

// ended is the end of a meal: of its time, or by a cancel.
type ended struct {
	PetID   string `json:"pet_id"`
	TaskID  string `json:"task_id"`
	Version int64  `json:"version"`
	Event   string `json:"event"`
	AtMs    int64  `json:"at_ms"`
	LagMs   int64  `json:"lag_ms"` // after its due time, or after its last change if that was later
	Times   int    `json:"times"`  // its effects

	name string
}

func (e ended) at() time.Time      { return time.UnixMilli(e.AtMs) }
func (e ended) lag() time.Duration { return time.Duration(e.LagMs) * time.Millisecond }

// endsIn returns the ends among lines of the journal, the newest first, each task once.
func endsIn(lines []Line) []ended {
	var all []ended
	of := map[string]int{} // task to its place in all
	for _, line := range slices.Backward(lines) {
		i, there := of[line.TaskID]
		if !there {
			i = len(all)
			of[line.TaskID] = i
			all = append(all, ended{PetID: line.PetID, TaskID: line.TaskID, name: line.Name})
		}
		e := &all[i]
		switch line.Event {
		case eventFinished, eventCancelled:
			e.LagMs = max(0, line.AtMs-max(line.DueAtMs, e.AtMs)) // AtMs is still that of the change before
			e.Times++
		case eventArmed: // changes no task
			continue
		}
		e.Event, e.Version, e.AtMs = line.Event, line.Version, line.AtMs
	}
	all = slices.DeleteFunc(all, func(e ended) bool { return e.Times == 0 })
	slices.SortStableFunc(all, func(a, b ended) int { return cmp.Compare(b.AtMs, a.AtMs) })
	return all
}
