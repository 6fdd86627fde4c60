package peer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	hibiken "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/imports"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// inMemory takes imported tasks in the place of MySQL.
type inMemory map[task.ID]task.Task

func (inMemory) Clock(context.Context) (time.Time, error) { return time.Now(), nil }

func (m inMemory) Rows(_ context.Context, ids []task.ID) (rows []task.Task, _ error) {
	for _, id := range ids {
		if row, there := m[id]; there {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (m inMemory) Import(_ context.Context, specs []task.Spec, _ string) error {
	for _, spec := range specs {
		row, err := spec.Resolve(time.Now())
		if err != nil {
			return err
		}
		m[row.ID] = row
	}
	return nil
}

// TestImportOfAsynq imports what the real client of asynq scheduled, and compares that with what other tests of imports
// write in the client's place.
func TestImportOfAsynq(t *testing.T) {
	const many = 2500
	server := pipelinetest.OwnRedis(t)
	raw := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2})
	defer func() { _ = raw.Close() }()
	client := hibiken.NewClient(hibiken.RedisClientOpt{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	due := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	want := map[string]time.Time{}
	for i := range many {
		id, payload := fmt.Sprintf("task-%d", i), fmt.Appendf(nil, `{"n":%d}`, i)
		at := due.Add(time.Duration(i%50) * time.Second)
		options := []hibiken.Option{hibiken.TaskID(id), hibiken.ProcessAt(at), hibiken.Queue("mails")}
		if i%2 == 1 {
			options = append(options, hibiken.Unique(time.Hour), hibiken.Retention(time.Hour), hibiken.Deadline(at.Add(time.Hour)), hibiken.MaxRetry(0))
		}
		_, err := client.EnqueueContext(t.Context(), hibiken.NewTask("mail:send", payload), options...)
		pipelinetest.Must(t, err)
		want[string(payload)] = at
		if i == 0 {
			written, err := raw.HGetAll(t.Context(), "asynq:{mails}:t:"+id).Result()
			pipelinetest.Must(t, err)
			stand := pipelinetest.AsynqTask{Type: "mail:send", ID: id, Payload: payload}
			if diff := cmp.Diff(map[string]string{"msg": string(stand.Message("mails")), "state": "scheduled"}, written); diff != "" {
				t.Errorf("asynq writes another hash than the tests of imports (-tests +asynq):\n%s", diff)
			}
		}
	}
	kind, err := imports.NewKind("mail.send", "default", 25)
	pipelinetest.Must(t, err)
	rows := inMemory{}
	for _, imported := range []int{many, 0} {
		sum, err := imports.Run(t.Context(), imports.Config{Retention: func(string) time.Duration { return time.Hour }}, raw,
			&imports.Asynq{Queue: "mails", Types: map[string]imports.Kind{"mail:send": kind}}, rows)
		if diff := cmp.Diff(imports.Result{Imported: imported, Present: many - imported}, sum); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	got := map[string]time.Time{}
	for _, row := range rows {
		if !json.Valid(row.Payload) || row.Kind != "mail.send" {
			t.Errorf("row %+v", row)
		}
		got[string(row.Payload)] = row.DueAt
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
