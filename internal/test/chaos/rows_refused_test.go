package chaos_test

import (
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	refusedQueue = "refused" // another service's, on the same deployment
	refusedTopic = namespace + ".q." + refusedQueue
	refusedKind  = "chaos.refused"
	refusedFor   = 25 * time.Second
	refusedRate  = 100 // tasks a second that Kafka refuses
	mostShift    = 75 * time.Millisecond
	anonymous    = "User:ANONYMOUS"
)

func refusedRows() []entry {
	return []entry{{
		n: 70, fault: "a queue that Kafka refuses: hints too large for its topic, then access denied", run: queueRefused,
		setup: setup{kafka: []string{
			"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"allow.everyone.if.no.acl.found=true", "super.users=User:nobody",
		}},
	}}
}

// queueRefused has Kafka refuse one queue's hints, of which some are due in each shard all the time. Nobody else may feel it,
// and no leader may be replaced for it.
func queueRefused(t *testing.T, d *drill) {
	t.Helper()
	from := d.clock()
	time.Sleep(refusedFor / 2)
	before := d.lagsWithin(t, from, d.clock()-1000)
	d.inKafka(t, func(c *kafka.Client) error {
		res, err := c.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
			Topic: refusedTopic, NumPartitions: 4, ReplicationFactor: 1,
			ConfigEntries: []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: "10"}},
		}}})
		return errors.Join(err, res.Errors[refusedTopic])
	})
	d.whileRefused(t, "hints too large", before)
	d.inKafka(t, func(c *kafka.Client) error {
		res, err := c.IncrementalAlterConfigs(t.Context(), &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: refusedTopic,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "max.message.bytes", Value: "1000000", ConfigOperation: kafka.ConfigOperationSet}},
			}},
		})
		if err != nil {
			return err
		}
		denied, err := c.CreateACLs(t.Context(), &kafka.CreateACLsRequest{ACLs: refusedACLs()})
		return errors.Join(append(denied.Errors, err, res.Resources[0].Error)...)
	})
	d.whileRefused(t, "access denied", before)
}

// refusedACLs let everybody see the topic, and nobody write to it.
func refusedACLs() []kafka.ACLEntry {
	entry := kafka.ACLEntry{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: refusedTopic, ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: anonymous, Host: "*", Operation: kafka.ACLOperationTypeDescribe, PermissionType: kafka.ACLPermissionTypeAllow,
	}
	write := entry
	write.Operation, write.PermissionType = kafka.ACLOperationTypeWrite, kafka.ACLPermissionTypeDeny
	return []kafka.ACLEntry{entry, write}
}

// whileRefused has tasks of the refused queue come due for a while, and compares the others' lags with those before.
func (d *drill) whileRefused(t *testing.T, name string, before []time.Duration) {
	t.Helper()
	leads, _ := d.settled(t)
	epoch, passed := d.epoch(t, "event"), leads.Metric(t, passedOver)
	var from, to int64
	d.fault(t, name, 3*time.Second, func() {
		from = d.addRefused(t)
		time.Sleep(time.UnixMilli(from).Add(refusedFor).Sub(d.crowd.now()))
		to = d.clock() - 1000
		d.note(t, "%s: %.0f hints were passed over", name, leads.Metric(t, passedOver)-passed)
		// The queue is not in the configuration, so that hints which its topic refuses for good go to another one.
		elsewhere := leads.Says("queue takes no hints, another carries them") > 0
		if leads.Metric(t, passedOver) == passed && leads.Says("queue in trouble") == 0 && !elsewhere {
			t.Errorf("%s: no hint was refused", name)
		}
		d.exec(t, `UPDATE duetime_tasks SET state = 2, version = version + 1,
finished_at = UNIX_TIMESTAMP(NOW(3)) * 1000, updated_at = UNIX_TIMESTAMP(NOW(3)) * 1000 WHERE kind = '`+refusedKind+`' AND state = 0`)
	})
	lags := d.lagsWithin(t, from, to)
	d.note(t, "%s: lag p50 %d and p99 %d ms, before %d and %d ms", name, rank(lags, 50).Milliseconds(), rank(lags, 99).Milliseconds(),
		rank(before, 50).Milliseconds(), rank(before, 99).Milliseconds())
	if len(lags) < int(to-from)/100 {
		t.Errorf("%s: only %d tasks came due within %d ms", name, len(lags), to-from)
	}
	for percent, most := range map[int]time.Duration{50: mostShift, 99: late} {
		if got, was := rank(lags, percent), rank(before, percent); got > was+most+d.slack {
			t.Errorf("%s: lag p%d is %v, want at most %v more than before, %v", name, percent, got, most, was)
		}
	}
	if now := d.epoch(t, "event"); now != epoch {
		t.Errorf("%s: the leader was replaced, epoch %d after %d", name, now, epoch)
	}
}

const passedOver = "duetime_hints_passed_over_total "

// addRefused inserts tasks of the refused queue that come due one after the other from a moment on, which it returns. The
// daemon indexes them.
func (d *drill) addRefused(t *testing.T) (from int64) {
	t.Helper()
	const lookahead = 5000 // ms: two passes of the daemon
	from = d.clock() + lookahead
	n := int(refusedFor/time.Second) * refusedRate
	d.exec(t, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, CONCAT('refused-', seq), ?, CRC32(CONCAT('refused-', seq)) MOD shards,
       ? + seq * ?, ? + seq * ?, '{}', ?, ?
FROM duetime_layout, `+pipelinetest.Numbers(1, n), refusedKind, refusedQueue, from, 1000/refusedRate, from, 1000/refusedRate,
		from-lookahead, from-lookahead)
	return from
}
