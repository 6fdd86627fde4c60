package chaos_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// oldHints is how many hints of no task wait for the workers, in batches of one.
const oldHints = 60_000

func memoryRow() entry {
	return entry{
		n: 86, fault: fmt.Sprintf("Redis unreachable for 2 minutes; %d old hints in as many batches", oldHints),
		setup: setup{linked: []string{"redis"}, rate: 300}, run: memoryHolds,
	}
}

// memoryHolds has compensations pile up in Kafka, and then hints: whoever reads them must not take their number in memory. The drill
// watches the memory of every process.
func memoryHolds(t *testing.T, d *drill) {
	t.Helper()
	each := func(do func(*pipelinetest.ToxicProxy)) {
		for _, s := range d.all() {
			do(s.links.redis)
		}
	}
	d.fault(t, "Redis unreachable", 30*time.Second, func() {
		each((*pipelinetest.ToxicProxy).Cut)
		time.Sleep(2 * time.Minute) // the length of the outage
		each((*pipelinetest.ToxicProxy).Heal)
	})
	d.fault(t, "old hints", 30*time.Second, func() {
		for _, s := range d.workers {
			pipelinetest.Must(t, s.Kill())
		}
		d.plantHints(t, oldHints)
		for _, s := range d.workers {
			d.restart(t, s)
		}
	})
	pipelinetest.Await(t, "the old hints to be read", func() bool {
		committed := d.committed(t)
		for p, end := range d.topicEnds(t) {
			if end-committed[p] > oldHints/100 {
				return false
			}
		}
		return true
	})
}

// plantHints appends hints that name no task, each in a batch of its own.
func (d *drill) plantHints(t *testing.T, n int) {
	t.Helper()
	partitions := len(d.topicEnds(t))
	d.inKafka(t, func(c *kafka.Client) error {
		for range n / partitions {
			topic := produce.RequestTopic{Topic: hintTopic}
			for p := range partitions {
				value := fmt.Sprintf(`{"id":%q,"kind":"pet.meal_finished","owner":"nobody-%d","run_at":%d,"version":1}`, uuid.New(), p, d.clock())
				topic.Partitions = append(topic.Partitions, produce.RequestPartition{
					Partition: int32(p),
					RecordSet: protocol.RecordSet{Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte(value))})},
				})
			}
			answer, err := c.Transport.RoundTrip(t.Context(), c.Addr, &produce.Request{Acks: -1, Timeout: 10_000, Topics: []produce.RequestTopic{topic}})
			if err != nil {
				return err
			}
			res, _ := answer.(*produce.Response)
			if slices.ContainsFunc(res.Topics[0].Partitions, func(p produce.ResponsePartition) bool { return p.ErrorCode != 0 }) {
				return errors.New("a hint was refused")
			}
		}
		return nil
	})
}
