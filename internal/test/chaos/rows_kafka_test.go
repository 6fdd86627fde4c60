package chaos_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func kafkaRows() []entry {
	return []entry{
		{n: 11, fault: "Kafka killed and restarted; down for 60 s", run: kafkaDown},
		{n: 12, fault: "Kafka's data wiped; the hints topic truncated under standing offsets; made anew, shorter than they are", run: kafkaForgets},
		{n: 29, fault: "all workers stopped for 3 minutes", run: workersAway},
	}
}

const (
	hintGroup   = "duetime.default" // the workers'
	kafkaBack   = 15 * time.Second
	hintsAgain  = 20 * time.Second // after hints were lost: the sweep puts what is beyond its grace
	ballast     = 100_000          // more due tasks than the game has, for a leader without Kafka to cope with
	ballastKind = "chaos.ballast"
	mostGrowth  = 100 << 20 // bytes of both event processes
)

// kafkaDown takes Kafka away for a moment and for long. Nobody publishes meanwhile, however much is due, and nobody may
// gather up what can't be published.
func kafkaDown(t *testing.T, d *drill) {
	t.Helper()
	d.fault(t, "killed", kafkaBack, func() {
		d.awaitBatch(t)
		pipelinetest.Must(t, d.kafka.Kill())
		pipelinetest.Must(t, d.kafka.Start())
	})
	d.fault(t, "down for 60 s", kafkaBack, func() {
		down := time.Now()
		pipelinetest.Must(t, d.kafka.Kill())
		before := d.resident(t)
		d.addBallast(t)
		most := before
		for time.Since(down) < time.Minute {
			most = max(most, d.resident(t))
			time.Sleep(500 * time.Millisecond) // between two looks
		}
		waiting := d.indexed(t, "-inf", fmt.Sprint(d.clock()))
		d.wantAnswered(t, "Kafka down", down)
		d.note(t, "Kafka down with %d tasks due: both event processes together had %d MiB before and at most %d MiB", waiting, before>>20, most>>20)
		if waiting < ballast || most > before+mostGrowth {
			t.Errorf("with %d tasks due the event processes grew from %d to %d MiB", waiting, before>>20, most>>20)
		}
		d.dropBallast(t)
		pipelinetest.Must(t, d.kafka.Start())
	})
}

// addBallast adds tasks of a kind that the game doesn't know, due soon, as another service would. The daemon indexes them.
func (d *drill) addBallast(t *testing.T) {
	t.Helper()
	d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, shard, due_at, run_at, payload, created_at, updated_at)
SELECT UNHEX(REPLACE(UUID(), '-', '')), '`+ballastKind+`', CONCAT('ballast-', seq), CRC32(CONCAT('ballast-', seq)) MOD shards, ms, ms, '{}', ms, ms
FROM duetime_layout, `+pipelinetest.Numbers(1, ballast)+`, (SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) + 5000 AS ms) AS soon`)
}

// dropBallast cancels these tasks, as another service would.
func (d *drill) dropBallast(t *testing.T) {
	t.Helper()
	d.exec(t, `UPDATE duetime_tasks SET state = 2, version = version + 1,
finished_at = UNIX_TIMESTAMP(NOW(3)) * 1000, updated_at = UNIX_TIMESTAMP(NOW(3)) * 1000 WHERE kind = '`+ballastKind+`' AND state = 0`)
}

// resident is the memory that the event processes have together. Who can't publish resigns, so both get their turn.
func (d *drill) resident(t *testing.T) (bytes int) {
	t.Helper()
	for _, s := range d.events {
		rss, err := memoryOf(s.App, "VmRSS:")
		pipelinetest.Must(t, err)
		bytes += rss
	}
	return bytes
}

// kafkaForgets takes hints away that were published and not yet read, with and without the offsets from which the workers
// would read on.
func kafkaForgets(t *testing.T, d *drill) {
	t.Helper()
	each := func(do func(*seat) error) {
		for _, s := range d.workers {
			pipelinetest.Must(t, do(s))
		}
	}
	freeze, thaw := func(s *seat) error { return s.Freeze() }, func(s *seat) error { return s.Thaw() }
	d.fault(t, "wiped", hintsAgain, func() {
		each(freeze)
		d.awaitUnread(t)
		pipelinetest.Must(t, d.kafka.Wipe())
		each(thaw)
	})
	before := d.rewinds()
	d.fault(t, "truncated", hintsAgain, func() {
		each(freeze)
		d.awaitUnread(t)
		d.truncate(t)
		each(thaw)
	})
	d.awaitRewound(t, "truncated", before)
	d.fault(t, "made anew", hintsAgain, func() {
		each(func(s *seat) error { s.Stop(t); return nil })
		d.awaitUnread(t)
		d.makeAnew(t)
		each(func(s *seat) error { d.start(t, s); return nil })
	})
	each(func(s *seat) error { s.WaitReady(t); return nil })
	d.awaitRewound(t, "made anew", 0)
}

// rewinds counts how often the present workers were refused an offset by Kafka, and went to the log's start.
func (d *drill) rewinds() (n int) {
	for _, s := range d.workers {
		n += s.Says("offset is out of range")
	}
	return n
}

// awaitRewound waits for a refusal: tasks are on time before it, as workers look for them in MySQL.
func (d *drill) awaitRewound(t *testing.T, name string, before int) {
	t.Helper()
	pipelinetest.Await(t, name+": a worker's offset to be refused", func() bool { return d.rewinds() > before })
}

// awaitUnread waits until many hints stand in the topic that the workers have not committed.
func (d *drill) awaitUnread(t *testing.T) {
	t.Helper()
	pipelinetest.Await(t, "unread hints", func() bool {
		unread, committed := 0, d.committed(t)
		for p, end := range d.topicEnds(t) {
			unread += int(end - max(committed[p], 0))
		}
		return unread > 100
	})
}

// truncate moves the start of each partition's log to its end, so that the workers' offsets stand before it.
func (d *drill) truncate(t *testing.T) {
	t.Helper()
	to, committed, ahead := d.topicEnds(t), d.committed(t), 0
	d.eachPartition(t, func(p int, conn *kafka.Conn) error {
		if err := d.kafka.DeleteRecords(hintTopic, p, to[p]); err != nil {
			return err
		}
		first, err := conn.ReadFirstOffset()
		if committed[p] < first {
			ahead++
		}
		return err
	})
	if ahead == 0 {
		t.Error("no log begins behind the offset that is committed for it")
	}
	d.note(t, "the logs of %d partitions were truncated under the committed offset", ahead)
}

// makeAnew deletes the topic, waits until somebody has made it again, and commits the offsets that stood before: Kafka
// forgets them with the topic, a restored Kafka does not.
func (d *drill) makeAnew(t *testing.T) {
	t.Helper()
	before := d.committed(t)
	d.inKafka(t, func(c *kafka.Client) error {
		res, err := c.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{hintTopic}})
		return errors.Join(err, res.Errors[hintTopic])
	})
	pipelinetest.Await(t, "a new topic with hints", func() bool { return d.newHints(t, len(before)) > 0 })
	d.commit(t, before)
	behind := 0
	for p, end := range d.topicEnds(t) {
		if end < before[p] {
			behind++
		}
	}
	if behind == 0 {
		t.Error("no new log is shorter than the offset that is committed for it")
	}
	d.note(t, "the new logs of %d partitions ended before the committed offset", behind)
}

// newHints counts the hints in the topic, 0 while not all of its partitions can be read.
func (w *world) newHints(t *testing.T, partitions int) int64 {
	t.Helper()
	ask := map[string][]kafka.OffsetRequest{}
	for p := range partitions {
		ask[hintTopic] = append(ask[hintTopic], kafka.LastOffsetOf(p))
	}
	hints, read := int64(0), 0
	w.inKafka(t, func(c *kafka.Client) error {
		res, err := c.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: ask})
		if err != nil {
			return nil //nolint:nilerr // there is no such topic now
		}
		for _, p := range res.Topics[hintTopic] {
			if p.Error == nil {
				hints, read = hints+p.LastOffset, read+1
			}
		}
		return nil
	})
	if read < partitions {
		return 0
	}
	return hints
}

// inKafka sends requests to the broker itself, around all proxies.
func (w *world) inKafka(t *testing.T, do func(c *kafka.Client) error) {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	pipelinetest.Must(t, do(&kafka.Client{Addr: kafka.TCP(w.kafka.Addr()), Transport: transport, Timeout: time.Minute}))
}

// committed returns the workers' offsets in the hints topic, -1 where there is none.
func (w *world) committed(t *testing.T) ends {
	t.Helper()
	now := ends{}
	w.inKafka(t, func(c *kafka.Client) error {
		res, err := c.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{
			GroupID: hintGroup, Topics: map[string][]int{hintTopic: slices.Collect(maps.Keys(w.topicEnds(t)))},
		})
		if err != nil {
			return err
		}
		for _, p := range res.Topics[hintTopic] {
			err = errors.Join(err, p.Error)
			now[p.Partition] = p.CommittedOffset
		}
		return errors.Join(err, res.Error)
	})
	return now
}

// commit sets the offsets of a group that has no members.
func (w *world) commit(t *testing.T, offsets ends) {
	t.Helper()
	var all []kafka.OffsetCommit
	for p, offset := range offsets {
		if offset >= 0 {
			all = append(all, kafka.OffsetCommit{Partition: p, Offset: offset})
		}
	}
	w.inKafka(t, func(c *kafka.Client) error {
		res, err := c.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: hintGroup, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{hintTopic: all},
		})
		if err != nil {
			return err
		}
		for _, p := range res.Topics[hintTopic] {
			err = errors.Join(err, p.Error)
		}
		return err
	})
}

// workersAway stops all workers for minutes. Their hints wait in Kafka: who publishes them again adds to the load that
// the workers meet when they are back.
func workersAway(t *testing.T, d *drill) {
	t.Helper()
	before := d.topicEnds(t)
	d.fault(t, "stopped", kafkaBack, func() {
		for _, s := range d.workers {
			s.Stop(t)
		}
		time.Sleep(3 * time.Minute)
		d.wantFewRepeats(t, "while the backlog stands", before)
		for _, s := range d.workers {
			d.start(t, s)
		}
	})
	d.wantFewRepeats(t, "until it has drained", before)
}

// wantFewRepeats wants that hardly any task has had a second hint since then. A player who moves a task causes one.
func (d *drill) wantFewRepeats(t *testing.T, when string, since ends) {
	t.Helper()
	type schedule struct {
		task    string
		version int64
	}
	hints, tasks, schedules := d.hintsSince(t, since), map[string]bool{}, map[schedule]bool{}
	for _, h := range hints {
		tasks[h.ID], schedules[schedule{h.ID, h.Version}] = true, true
	}
	ratio := float64(len(hints)) / float64(max(len(tasks), 1))
	d.note(t, "workers stopped, %s: %d hints of %d tasks, %.2f each; %d hints were repeated without a change of the task",
		when, len(hints), len(tasks), ratio, len(hints)-len(schedules))
	if len(tasks) < d.setup.pets/2 || ratio > 1.2 {
		t.Errorf("%s: %d hints of %d tasks, %.2f each, want at most 1.2", when, len(hints), len(tasks), ratio)
	}
}
