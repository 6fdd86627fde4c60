//go:build screens

package browser_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// TestScreens writes pictures of all views, and an animation of the game, into the folder DUETIME_SCREENS. scripts/screens
// calls it.
func TestScreens(t *testing.T) {
	dir := os.Getenv("DUETIME_SCREENS")
	w := newWorld(t, 16*time.Second)
	w.live()
	p := openTab(t, w.browser, w.console)
	p.do(chromedp.EmulateViewport(1280, 800))
	life := w.moved("player-7")
	for range 25 { // each look measures some minutes of the last hour
		p.show("now")
	}
	for name, at := range map[string]string{
		"now": "now", "tasks": "tasks?kind=pet.meal_finished", "dead": "dead", "system": "system", "changes": "changes", "owner": "owner?owner=player-7&span=6h", "task": "task?id=" + life.ID.String(),
		"preview": "change?" + url.Values{"do": {"bulk.shift"}, "queue": {"shop"}, "by": {"2h"}}.Encode(),
	} {
		p.look(dir, name, at)
	}
	p.do(theme("dark"))
	p.look(dir, "now-dark", "now")
	p.look(dir, "owner-dark", "owner?owner=player-7&span=6h")
	p.do(theme("light"), chromedp.EmulateViewport(390, 800))
	p.look(dir, "now-phone", "now")
	p.look(dir, "task-phone", "task?id="+life.ID.String())
	p.do(chromedp.EmulateViewport(1280, 800))
	p.show("now")
	p.follow("footer button[value=zh]", "now")
	p.look(dir, "now-zh", "now")
	p.look(dir, "system-zh", "system")
	w.film(dir)
}

func theme(name string) chromedp.Action[chromedp.Void] {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

// look writes a picture of a view.
func (p *tab) look(dir, name, at string) {
	p.t.Helper()
	p.show(at)
	p.there("main h1")
	if name == "tasks" {
		p.there("#found .rows tbody a.id") // a search may go on before it finds one
	}
	time.Sleep(500 * time.Millisecond) // until scripts have drawn
	pipelinetest.Must(p.t, os.WriteFile(filepath.Join(dir, name+".png"), p.shoot(), 0o600))
}

func (p *tab) shoot() []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	pipelinetest.Must(p.t, err)
	return shot
}

// live makes what a deployment has after a while: tasks of several kinds that are pending, done and dead, and a recurrence.
func (w *world) live() {
	w.t.Helper()
	type payload struct {
		ID int `json:"id"`
	}
	hour := float64(time.Hour)
	evenly := func() time.Duration { return time.Duration(rand.Float64() * hour) }
	around := func(at time.Duration) func() time.Duration {
		return func() time.Duration {
			return max(time.Minute, at+time.Duration(rand.NormFloat64()*float64(3*time.Minute)))
		}
	}
	for _, group := range []struct {
		kind, queue string
		tasks       int
		due         func() time.Duration
	}{
		{"pet.meal_finished", "default", 9000, evenly},
		{"event.start", "shop", 6000, func() time.Duration { return 25*time.Minute + time.Duration(rand.Float64()*float64(20*time.Second)) }},
		{"coupon.expire", "shop", 5000, around(48 * time.Minute)},
		{"order.unpaid", "shop", 900, func() time.Duration { return time.Duration(rand.Float64() * hour / 5) }},
		{"push.event_ends", "push", 1800, around(20 * time.Minute)},
		{"reward.daily", "default", 400, evenly},
	} {
		kind := task.NewKind[payload](group.kind, task.Queue(group.queue))
		for done := 0; done < group.tasks; done += task.MaxPerCall {
			var specs []task.Spec
			for i := range min(task.MaxPerCall, group.tasks-done) {
				specs = append(specs, kind.New(fmt.Sprintf("player-%d", (done+i)%900), payload{done + i}, task.In(2*time.Minute+group.due()), task.Subject(fmt.Sprint(done+i))))
			}
			w.change(func(tx *schedule.Tx) error { _, err := tx.ScheduleMany(w.t.Context(), specs); return err })
		}
	}
	// A part of them ended in the last hour: most within some milliseconds, a few during an outage of half a minute.
	w.exec(`UPDATE duetime_tasks SET state = 1, version = 2, due_at = due_at - 3750000, run_at = due_at, created_at = due_at - 14400000,
		finished_at = due_at + 1 + FLOOR(POW(RAND(), 9) * 60), updated_at = finished_at WHERE kind = 'pet.meal_finished' AND MOD(CONV(HEX(SUBSTR(id, 16, 1)), 16, 10), 2) = 0`)
	w.exec(`UPDATE duetime_tasks SET finished_at = finished_at + 400 + FLOOR(RAND() * 1500), updated_at = finished_at WHERE state = 1 ORDER BY due_at LIMIT 12`)
	for reason, n := range map[string]int{"payment service answered 503 to order": 14, "no device token for player": 5, "connection reset by peer 10.0.3.7: try": 3} {
		w.dead("player-9", reason, n)
	}
	w.exec("UPDATE duetime_tasks SET created_at = created_at - 7300000, finished_at = finished_at - 7200000, updated_at = updated_at - 7200000 WHERE state = 3")
	w.exec("UPDATE duetime_processes SET version = '1.42.0', host = 'game-1'")
	w.exec(`INSERT INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) SELECT id, 'worker', 'there', version, at - began, at - seen, '{"ended":true}'
		FROM (SELECT 'u' AS id, '1.41.0' AS version, 9000000 AS began, 2300000 AS seen UNION ALL SELECT 'v', '1.42.0', 2280000, 60000) AS runs,
		(SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS at) AS moment`)
	w.exec(`UPDATE duetime_tasks SET due_at = (SELECT at FROM (SELECT due_at - MOD(due_at, 60000) - 1500000 AS at FROM duetime_tasks WHERE state = 1 ORDER BY due_at DESC LIMIT 1) AS burst),
		run_at = due_at, created_at = due_at - 14400000, finished_at = due_at + 2 + FLOOR(RAND() * 520), updated_at = finished_at WHERE state = 1 AND MOD(due_at, 20) = 0`)
	w.recur("player-7", "breakfast")
	w.recur("player-7", "evening walk")
}

// moved returns a task of the owner that was moved twice, as its life tells.
func (w *world) moved(owner string) task.Task {
	w.t.Helper()
	made := w.schedule(owner, 90*time.Minute, 2*time.Hour, 3*time.Hour)[0]
	for _, by := range []string{"-40m", "30m"} {
		if code, said := w.Duetime(w.t, "task", "reschedule", made.ID.String(), "--by="+by); code != 0 {
			w.t.Fatalf("task reschedule: %d %s", code, said)
		}
	}
	return made
}

// film writes an animation of the game: a meal ends in time, then the worker is killed while three meals go on, two of which end
// meanwhile. A successor ends them, and all three eat again.
func (w *world) film(dir string) {
	w.t.Helper()
	succeed := w.mortal()
	p := openTab(w.t, w.browser, w.game)
	p.do(chromedp.EmulateViewport(800, 820), theme("light"))
	p.show("?owner=ann")
	for _, name := range []string{"moo", "kit", "tom"} {
		newPet(p, name, "ann")
	}
	eval[bool](p, "document.querySelector('.bar').hidden = document.querySelector('.journal').hidden = true")
	press := func(nth int, act string) func() {
		return func() {
			eval[bool](p, fmt.Sprintf("document.querySelectorAll('.pet')[%d].querySelector('[data-act=%s]').click() || true", nth, act))
		}
	}
	for nth := range 3 {
		press(nth, "feed")()
	}
	p.await("document.querySelectorAll('.pet.eating').length === 3")
	acts := []struct {
		at time.Duration
		do func()
	}{
		{400 * time.Millisecond, press(2, "speedup")},
		{1100 * time.Millisecond, press(2, "speedup")}, // its time is over
		{2500 * time.Millisecond, press(2, "feed")},
		{3500 * time.Millisecond, func() { p.click("[data-lesson=kill]") }},
		{4300 * time.Millisecond, press(0, "speedup")},
		{4700 * time.Millisecond, press(1, "speedup")},
		{5100 * time.Millisecond, press(0, "speedup")},
		{5800 * time.Millisecond, press(1, "speedup")},
		{7 * time.Second, succeed}, // as what make up starts does
		{9 * time.Second, press(0, "feed")},
		{9500 * time.Millisecond, press(1, "feed")},
	}
	var frames []image.Image
	var delays []int
	began := time.Now()
	for last := began; last.Sub(began) < 12*time.Second; {
		for len(acts) > 0 && time.Since(began) > acts[0].at {
			acts[0].do()
			acts = acts[1:]
		}
		frame, err := png.Decode(bytes.NewReader(p.shoot()))
		pipelinetest.Must(w.t, err)
		now := time.Now()
		frames, delays = append(frames, frame), append(delays, max(2, int(now.Sub(last).Milliseconds()/10)))
		last = now
		time.Sleep(100 * time.Millisecond)
	}
	var file bytes.Buffer
	pipelinetest.Must(w.t, gif.EncodeAll(&file, animate(frames, delays)))
	pipelinetest.Must(w.t, os.WriteFile(filepath.Join(dir, "game.gif"), file.Bytes(), 0o600))
	for i := range 8 {
		var shot bytes.Buffer
		pipelinetest.Must(w.t, png.Encode(&shot, frames[i*len(frames)/8]))
		pipelinetest.Must(w.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("game-%d.png", i)), shot.Bytes(), 0o600))
	}
}

// animate makes an animation with one palette. Each frame has what changed since the one before.
func animate(frames []image.Image, delays []int) *gif.GIF {
	palette := commonest(frames)
	out := &gif.GIF{}
	var last *image.Paletted
	for i, frame := range frames {
		whole := image.NewPaletted(frame.Bounds(), palette)
		draw.Draw(whole, whole.Bounds(), frame, frame.Bounds().Min, draw.Src)
		part := whole
		if last != nil {
			part, _ = whole.SubImage(changed(last, whole)).(*image.Paletted)
		}
		out.Image, out.Delay = append(out.Image, part), append(out.Delay, delays[i])
		last = whole
	}
	return out
}

// commonest are the colours that most pixels of some of the frames have: a page has few, and shades between them.
func commonest(frames []image.Image) color.Palette {
	pixels := map[color.Color]int{}
	for i := 0; i < len(frames); i += 10 {
		size := frames[i].Bounds()
		for y := size.Min.Y; y < size.Max.Y; y++ {
			for x := size.Min.X; x < size.Max.X; x++ {
				pixels[frames[i].At(x, y)]++
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int { return cmp.Compare(pixels[b], pixels[a]) })
	return all[:min(len(all), 256)]
}

// changed is the rectangle in which two pictures of one size differ; a point if they don't.
func changed(a, b *image.Paletted) image.Rectangle {
	out := image.Rectangle{}
	for y := range a.Rect.Dy() {
		for x := range a.Rect.Dx() {
			if a.ColorIndexAt(x, y) != b.ColorIndexAt(x, y) {
				out = out.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return cmp.Or(out, image.Rect(0, 0, 1, 1))
}
