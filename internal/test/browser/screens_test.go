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
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/duetime/duetime/internal/protocol"
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
	life := w.retried("player-7")
	for range 25 { // each look measures some minutes of the last hour
		w.staffed()
		p.show("now")
	}
	look := func(name, at string) {
		t.Helper()
		w.staffed()
		p.look(dir, name, at)
	}
	for name, at := range map[string]string{
		"now": "now", "tasks": "tasks?kind=pet.meal_finished", "dead": "dead", "system": "system", "changes": "changes", "owner": "owner?owner=player-7&span=6h", "task": "task?id=" + life.ID.String(),
		"preview": "change?" + url.Values{"do": {"bulk.shift"}, "queue": {"shop"}, "by": {"2h"}}.Encode(),
	} {
		look(name, at)
	}
	p.do(theme("dark"))
	look("now-dark", "now")
	look("owner-dark", "owner?owner=player-7&span=6h")
	p.do(theme("light"), chromedp.EmulateViewport(390, 800))
	look("now-phone", "now")
	look("task-phone", "task?id="+life.ID.String())
	p.do(chromedp.EmulateViewport(1280, 800))
	p.show("now")
	p.follow("footer button[value=zh]", "now")
	look("now-zh", "now")
	look("system-zh", "system")
	p.follow("footer button[value=en]", "system")
	pipelinetest.Await(t, "the incident to be seen", func() bool {
		w.staffed()
		w.incident()
		p.show("now")
		return strings.Contains(p.text(".verdict"), "are behind") && p.count(".why") == 1
	})
	pipelinetest.Must(t, os.WriteFile(filepath.Join(dir, "now-late.png"), p.shoot(), 0o600))
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
		for _, key := range []string{"j", "j", "x", "j", "j", "X"} {
			p.press(key)
		}
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
		finished_at = due_at + 1 + FLOOR(POW(RAND(), 9) * 60), updated_at = finished_at WHERE MOD(CONV(HEX(SUBSTR(id, 16, 1)), 16, 10), 2) = 0`)
	w.exec(`UPDATE duetime_tasks SET finished_at = finished_at + 400 + FLOOR(RAND() * 1500), updated_at = finished_at WHERE state = 1 ORDER BY due_at LIMIT 12`)
	for i, took := range []time.Duration{2, 3, 5, 40} {
		w.exec("UPDATE duetime_tasks SET ran = ? WHERE state = 1 AND MOD(finished_at, 4) = ?", protocol.Ran{Worker: 1, Handler: took * time.Millisecond}.Pack(), i)
	}
	for reason, n := range map[string]int{"payment service answered 503 to order": 14, "no device token for player": 5, "connection reset by peer 10.0.3.7: try": 3} {
		w.dead("player-9", reason, n)
	}
	w.exec("UPDATE duetime_tasks SET created_at = created_at - 7300000, finished_at = finished_at - 3700000 - FLOOR(RAND() * 3500000), updated_at = finished_at WHERE state = 3")
	w.exec("UPDATE duetime_processes SET version = '1.42.0', host = 'game-1', started_at = started_at - 2280000")
	w.exec(`INSERT INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) SELECT id, 'worker', 'there', version, at - began, at - seen, '{"ended":true}'
		FROM (SELECT 'u' AS id, '1.41.0' AS version, 9000000 AS began, 2300000 AS seen UNION ALL SELECT 'v', '1.42.0', 2280000, 60000) AS runs,
		(SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS at) AS moment`)
	w.exec(`UPDATE duetime_tasks SET due_at = (SELECT at FROM (SELECT due_at - MOD(due_at, 60000) - 1500000 AS at FROM duetime_tasks WHERE state = 1 ORDER BY due_at DESC LIMIT 1) AS burst),
		run_at = due_at, created_at = due_at - 14400000, finished_at = due_at + 2 + FLOOR(RAND() * 520), updated_at = finished_at WHERE state = 1 AND MOD(due_at, 20) = 0`)
	w.recur("player-7", "breakfast")
	w.recur("player-7", "evening walk")
}

// staffed reports a worker of the queues and kinds that the game doesn't have, until some seconds from now.
func (w *world) staffed() {
	w.t.Helper()
	w.exec(`REPLACE INTO duetime_processes (id, role, host, version, started_at, seen_at, detail) SELECT 'w', 'worker', 'shop-1', '1.42.0', at - 2250000, at + 14000, ?
		FROM (SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS at) AS moment`, `{"pid": 7, "queues": ["default", "push", "shop"],
		"kinds": ["coupon.expire", "event.start", "order.unpaid", "push.event_ends", "reward.daily"]}`)
}

// retried returns a task of the owner that was moved twice and failed twice, as its life tells.
func (w *world) retried(owner string) task.Task {
	w.t.Helper()
	const reason = "feeder answered 503 Service Unavailable"
	made := w.schedule(owner, 18*time.Minute)[0] // its next attempt
	ago := func(minutes int) time.Time { return made.CreatedAt.Add(-time.Duration(minutes) * time.Minute) }
	w.exec("UPDATE duetime_tasks SET created_at = ?, due_at = ?, updated_at = ?, version = 7, attempt = 2, last_error = ? WHERE id = ?",
		ago(150).UnixMilli(), ago(30).UnixMilli(), ago(12).UnixMilli(), reason, made.ID[:])
	for _, line := range []struct {
		ago                  int
		event, actor, detail string
	}{
		{140, "moved", "root@vm", "by -40m0s to " + ago(80).Format(time.RFC3339Nano)},
		{120, "moved", "root@vm", "by 50m0s to " + ago(30).Format(time.RFC3339Nano)},
		{30, "failed", "worker game-1", reason},
		{12, "failed", "worker game-1", reason},
	} {
		w.exec("INSERT INTO duetime_history (at, task, event, actor, detail) VALUES (?, ?, ?, ?, ?)", ago(line.ago).UnixMilli(), made.ID[:], line.event, line.actor, line.detail)
	}
	return made
}

// incident makes tasks of one kind late: their workers are behind, now and for some seconds.
func (w *world) incident() {
	w.t.Helper()
	at := w.number("SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)")
	// The game's worker puts them off after a while: others take their places.
	w.exec("UPDATE duetime_tasks SET due_at = ? + 1200000, run_at = due_at, last_error = '' WHERE state = 0 AND kind = 'push.event_ends' AND due_at < ?", at, at)
	w.exec("UPDATE duetime_tasks SET due_at = ? - FLOOR(RAND() * 79000), run_at = due_at WHERE state = 0 AND kind = 'push.event_ends' ORDER BY RAND() LIMIT 146", at)
	w.exec(`UPDATE duetime_tasks SET due_at = ? - 50000 - FLOOR(RAND() * 29000), run_at = due_at, finished_at = ? - 10000 + FLOOR(RAND() * 30000), updated_at = finished_at
		WHERE state = 1 AND kind = 'push.event_ends' ORDER BY id LIMIT 60`, at, at)
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
