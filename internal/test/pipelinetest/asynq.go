package pipelinetest

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

// AsynqTask is a scheduled task of hibiken/asynq.
type AsynqTask struct {
	Type, ID string
	Payload  []byte
	Due      time.Time
}

// Message is the task as the client of asynq v0.26.0 encodes it, with that client's defaults. A test of bench compares it
// with what the real client writes: this module does not depend on asynq.
func (a AsynqTask) Message(queue string) []byte {
	const retries, timeout = 25, 1800 // seconds
	var b []byte
	for number, value := range [][]byte{1: []byte(a.Type), 2: a.Payload, 3: []byte(a.ID), 4: []byte(queue)} {
		if len(value) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, protowire.Number(number), protowire.BytesType), value)
		}
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.VarintType), retries)
	return protowire.AppendVarint(protowire.AppendTag(b, 8, protowire.VarintType), timeout)
}

// ScheduleAsynq writes the tasks into the scheduled set of a queue, as asynq's client does.
func ScheduleAsynq(t testing.TB, client redis.Cmdable, queue string, tasks ...AsynqTask) {
	t.Helper()
	prefix := "asynq:{" + queue + "}:"
	Must(t, client.SAdd(t.Context(), "asynq:queues", queue).Err())
	for part := range slices.Chunk(tasks, 1000) {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, a := range part {
				p.HSet(t.Context(), prefix+"t:"+a.ID, "msg", a.Message(queue), "state", "scheduled")
				p.ZAdd(t.Context(), prefix+"scheduled", redis.Z{Score: float64(a.Due.Unix()), Member: a.ID})
			}
			return nil
		})
		Must(t, err)
	}
}
