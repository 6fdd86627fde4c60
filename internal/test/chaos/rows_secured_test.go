package chaos_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func securedRows() []entry {
	return []entry{{
		n: 30, fault: "all links over TLS, as users with the rights that they need: a worker, each server and the leader killed in turn",
		setup: setup{secured: true}, run: securedLinks,
	}}
}

// securedLinks breaks every connection there is: whoever comes back has to show again who he is, and may do what he may.
func securedLinks(t *testing.T, d *drill) {
	t.Helper()
	d.fault(t, "a worker", kafkaSession+mend, func() {
		d.someDue(t)
		pipelinetest.Must(t, d.workers[0].Kill())
	})
	d.restart(t, d.workers[0])
	for _, server := range []struct {
		name   string
		within time.Duration
		*pipelinetest.Server
	}{
		{"MySQL", 10 * time.Second, d.mysql.Server},
		{"Redis", mend, d.redis.Server},
		{"Kafka", kafkaBack, d.kafka.Server},
		{"ZooKeeper", zkSession, d.zookeeper.Server},
	} {
		d.fault(t, server.name, server.within, func() {
			d.someDue(t)
			pipelinetest.Must(t, server.Kill())
			pipelinetest.Must(t, server.Start())
		})
	}
	leaderKilled(t, d)
}
