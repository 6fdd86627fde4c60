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
	out := &taskView{Task: life, Ended: life.State == task.Done || life.State == task.Cancelled}
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
