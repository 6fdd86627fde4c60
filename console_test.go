package duetime_test

import (
	"os"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// A service's client has a console on the same servers, with the configuration's queues.
func TestConsole(t *testing.T) {
	t.Parallel()
	cfg := configured(t, pipelinetest.MySQL(t).NewSchema(t))
	cfg.Queues = []string{"default", "mails"}
	migrated(t, cfg)
	client := newClient(t, cfg)
	ctx := t.Context()
	pipelinetest.Must(t, client.Ready(ctx))
	made, err := client.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 7}, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	if _, _, err := client.Tasks(ctx, "ada", ""); err != nil { // once it was put
		t.Error(err)
	}

	c := client.Console()
	_, err = c.Shift(ctx, made.ID, time.Hour)
	pipelinetest.Must(t, err)
	life, err := c.Task(ctx, made.ID)
	pipelinetest.Must(t, err)
	host, err := os.Hostname()
	pipelinetest.Must(t, err)
	if n := len(life.History); n != 2 || life.History[1].Actor != "service@"+host {
		t.Errorf("got the history %+v", life.History)
	}
	if paused, err := c.Pause(ctx, "mails"); !paused || err != nil {
		t.Errorf("paused %v, %v", paused, err)
	}
	frame, err := c.Frame(ctx)
	pipelinetest.Must(t, err)
	whole := frame.Namespace == cfg.Namespace && frame.IndexErr == nil && len(frame.Shards) == cfg.Shards
	if !whole || frame.Queues[0].Queue != "mails" {
		t.Errorf("got the frame %+v", frame)
	}
	shards, err := c.Shards(ctx)
	pipelinetest.Must(t, err)
	if s := shards[made.Shard]; s.Due != 1 || s.Marker != console.MarkerAbsent {
		t.Errorf("got the shard %+v", s)
	}
}
