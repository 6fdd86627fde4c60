package consoleweb

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// taskView is the data of the view.
type taskView struct {
	Task    console.TaskLife
	Payload string // for people
	Ended   bool
	Why     console.Explanation // what it waits for; no answers if that is not known, or it has ended
	OwnMs   float64             // the call of its own handler
	Steps   []ranStep           // of a done task's last try; none if they are not known
}

// ranStep is a step of a task's last try, as a part of a bar.
type ranStep struct {
	Key      string // of its word, and its class
	Ms       float64
	X, Width int64
}

// ranWidth is the bar's width; a step that took time has a part of at least minStep.
const (
	ranWidth = 1000
	minStep  = 4
)

func stepsOf(ran *console.Ran) (all []ranStep) {
	if ran == nil {
		return nil
	}
	whole, x := int64(0), int64(0)
	for _, ms := range ran.Steps() {
		whole += ms
	}
	for i, ms := range ran.Steps() {
		s := ranStep{Key: []string{"hinted", "taken", "started", "ended"}[i], Ms: float64(ms), X: x}
		if ms > 0 {
			s.Width = max(minStep, ranWidth*ms/whole)
		}
		x += s.Width
		all = append(all, s)
	}
	return all
}

func readTask(ctx context.Context, v *visit) (any, error) {
	id, err := idOf(v)
	if err != nil {
		return nil, err
	}
	life, err := v.c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &taskView{Task: life, Steps: stepsOf(life.Ran), Ended: life.State == task.Done || life.State == task.Cancelled}
	if life.Ran != nil {
		out.OwnMs = float64(life.Ran.HandlerMs)
	}
	if all := whyLate(ctx, v).value; !out.Ended && len(all.Answers) > 0 {
		if out.Why, err = all.Task(ctx, id); err != nil {
			return nil, err
		}
	}
	if !v.Hides() {
		out.Payload = indented(life.Payload, life.PayloadText)
	}
	return out, nil
}

// indented returns JSON in lines, and any other text as it is.
func indented(payload json.RawMessage, text string) string {
	var b bytes.Buffer
	if payload == nil || json.Indent(&b, payload, "", "  ") != nil {
		return text
	}
	return b.String()
}
