package chaos_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// hintTopic carries all hints: the game has one queue.
const hintTopic = "duetime.q.default"

// hint is one of the topic's. A leader signs its hints with its epoch.
type hint struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
	RunAt   int64  `json:"run_at"` // Unix ms
	Epoch   int64  `json:"epoch"`
	At      int64  `json:"at"` // when its leader handed it to the writer, Unix ms
}

// ends are the partitions' ends at one moment.
type ends map[int]int64

// topicEnds tells where the hints topic ends now.
func (w *world) topicEnds(t *testing.T) ends {
	t.Helper()
	now := ends{}
	w.eachPartition(t, func(p int, conn *kafka.Conn) (err error) {
		now[p], err = conn.ReadLastOffset()
		return err
	})
	return now
}

// hintsSince reads what was appended to the topic since then, around all proxies. What is no hint is passed over.
func (w *world) hintsSince(t *testing.T, since ends) []hint {
	t.Helper()
	var all []hint
	w.eachPartition(t, func(p int, conn *kafka.Conn) error {
		first, last, err := conn.ReadOffsets()
		if err != nil {
			return err
		}
		for at := max(first, since[p]); at < last; {
			if _, err := conn.Seek(at, kafka.SeekAbsolute); err != nil {
				return err
			}
			batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 4 << 20})
			for {
				m, err := batch.ReadMessage()
				if err != nil {
					break // the batch's end; what it really was is told by Close
				}
				at = m.Offset + 1
				var h hint
				if json.Unmarshal(m.Value, &h) == nil {
					all = append(all, h)
				}
			}
			if err := batch.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

// eachPartition connects to one partition of the topic after the other.
func (w *world) eachPartition(t *testing.T, do func(p int, conn *kafka.Conn) error) {
	t.Helper()
	partitions, err := kafka.LookupPartitions(t.Context(), "tcp", w.kafka.Addr(), hintTopic)
	pipelinetest.Must(t, err)
	for _, p := range partitions {
		conn, err := kafka.DialLeader(t.Context(), "tcp", w.kafka.Addr(), hintTopic, p.ID)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		err = do(p.ID, conn)
		_ = conn.Close()
		pipelinetest.Must(t, err)
	}
}

// zombieHints counts the hints that a leader claimed when its successor had been at work for a second: hints of an older
// epoch for tasks that came due later than that. What a leader had claimed before it was replaced it may publish whenever
// it wakes; one more would mean that its epoch stopped it nowhere.
func zombieHints(hints []hint) int {
	const overlap = 1000 // ms in which the shards learn of the new epoch one by one
	began := map[int64]int64{}
	for _, h := range hints {
		if at, known := began[h.Epoch]; !known || h.At < at {
			began[h.Epoch] = h.At
		}
	}
	zombies := 0
	for _, h := range hints {
		for epoch, at := range began {
			if h.Epoch < epoch && min(h.At, h.RunAt) > at+overlap {
				zombies++
				break
			}
		}
	}
	return zombies
}

// ofEpoch counts the hints of one leader.
func ofEpoch(hints []hint, epoch int64) int {
	n := 0
	for _, h := range hints {
		if h.Epoch == epoch {
			n++
		}
	}
	return n
}

// wantNoZombies reads what was appended since then, when the leader of an epoch was about to be replaced, and fails the
// test if it went on claiming.
func (d *drill) wantNoZombies(t *testing.T, since ends, replaced int64) {
	t.Helper()
	var hints []hint
	pipelinetest.Await(t, "a successor's hint", func() bool {
		hints = d.hintsSince(t, since)
		return slices.ContainsFunc(hints, func(h hint) bool { return h.Epoch > replaced })
	})
	if n := zombieHints(hints); n > 0 {
		t.Errorf("zombie hints: %d of %d were claimed by a leader after its successor had begun", n, len(hints))
	}
}
