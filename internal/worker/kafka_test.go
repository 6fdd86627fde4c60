package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestOverKafkaWithAJoiningAndALeavingWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k, err := stream.NewKafka(stream.Config{
		Namespace: pipelinetest.Namespace(t), Brokers: []string{pipelinetest.Kafka(t).Addr()}, Partitions: 6,
	})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, k.Close()) })
	pipelinetest.Must(t, k.Ensure(t.Context()))
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	start := func() (stop func() error) {
		wk, err := engine.New(patient(engine.Config{Batch: 20}), mux, w.store, k, w.index, k)
		pipelinetest.Must(t, err)
		return w.run(wk)
	}
	publish := func(tasks ...task.Task) {
		entries := make([]protocol.Entry, len(tasks))
		for i, t := range tasks {
			entries[i] = protocol.Entry{ID: t.ID, Kind: t.Kind, Queue: t.Queue, Owner: t.Owner, Score: protocol.ScoreOf(t)}
		}
		for _, err := range k.Publish(t.Context(), entries, 1) {
			pipelinetest.Must(t, err)
		}
	}
	const n = 200
	stopFirst := start()
	publish(w.due(meal, n)...)
	stopSecond := start()
	publish(w.due(meal, n)...)
	want(t, "stop first", stopFirst(), nil)
	publish(w.due(meal, n)...)
	pipelinetest.Await(t, "all are done", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 3*n
	})
	pipelinetest.Await(t, "all is committed", func() bool { return !kafkaExplains(t.Context(), t, k) })
	want(t, "stop second", stopSecond(), nil)
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 3*n)
	want(t, "tasks with effects", w.store.Number("SELECT COUNT(DISTINCT task_id) FROM effects"), 3*n)
}

func kafkaExplains(ctx context.Context, t *testing.T, k *stream.Kafka) bool {
	t.Helper()
	b, err := k.Backlog(ctx, "default")
	pipelinetest.Must(t, err)
	for _, owner := range []string{"owner0", "owner1", "owner2", "owner3", "owner4", "owner5", "owner6", "owner7", "owner8", "owner9"} {
		if b.Explains(owner, time.Now().Add(time.Hour)) {
			return true
		}
	}
	return false
}
