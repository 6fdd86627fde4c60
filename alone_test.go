package duetime_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// Kafka is away since before the worker starts. The worker becomes ready and works, and goes over to hints when Kafka comes.
func TestWorkBeginsWithoutKafka(t *testing.T) {
	t.Parallel()
	kafka := pipelinetest.OwnKafka(t)
	cfg := configured(t, pipelinetest.MySQL(t).NewSchema(t))
	cfg.Kafka.Brokers = []string{kafka.Addr()}
	k := newKitchenOn(t, cfg)
	pipelinetest.Must(t, kafka.Kill())
	stop := k.work()
	feed := func(pet int64) {
		_, err := k.client.Schedule(t.Context(), MealFinished.New("ada", Meal{Pet: pet}, task.In(100*time.Millisecond)))
		pipelinetest.Must(t, err)
	}
	degraded := func() bool {
		workers, err := k.parts.Store.Degraded(t.Context(), time.Now())
		pipelinetest.Must(t, err)
		return workers["default"] > 0
	}
	feed(1)
	pipelinetest.Await(t, "a meal without Kafka", func() bool { return k.eaten(1) == 1 })
	pipelinetest.Await(t, "the history to say degraded", degraded)
	pipelinetest.Must(t, kafka.Start())
	pipelinetest.Await(t, "hints", func() bool {
		feed(2)
		time.Sleep(50 * time.Millisecond) // between two meals
		return !degraded()
	})
	pipelinetest.Must(t, stop())
}
