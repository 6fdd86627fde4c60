package chaos_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func linkRows() []entry {
	return []entry{{n: 22, fault: "each pair of components cut for 10 s: requests lost, answers lost, both", setup: setup{linked: everyServer}, run: pairsCut}}
}

// pairsCut cuts every way from a component to a server, in each direction and in both. Ways that don't wait for each
// other are cut together.
func pairsCut(t *testing.T, d *drill) {
	t.Helper()
	mysql := func(l links) *pipelinetest.ToxicProxy { return l.mysql }
	redis := func(l links) *pipelinetest.ToxicProxy { return l.redis }
	zookeeper := func(l links) *pipelinetest.ToxicProxy { return l.zookeeper }
	kafka := func(l links) *pipelinetest.ToxicProxy { return l.kafka }
	type way struct {
		from []*seat
		to   func(links) *pipelinetest.ToxicProxy
	}
	daemon, game := []*seat{d.daemon}, []*seat{d.game}
	for _, together := range []struct {
		name string
		ways []way
	}{
		{"event–MySQL, worker–Redis, daemon–ZooKeeper, game–Kafka", []way{{d.events, mysql}, {d.workers, redis}, {daemon, zookeeper}, {game, kafka}}},
		{"event–Redis, daemon–MySQL", []way{{d.events, redis}, {daemon, mysql}}},
		{"event–Kafka, game–Redis, daemon–Redis", []way{{d.events, kafka}, {game, redis}, {daemon, redis}}},
		{"event–ZooKeeper, worker–Kafka", []way{{d.events, zookeeper}, {d.workers, kafka}}},
		{"worker–MySQL, game–MySQL, daemon–Kafka", []way{{d.workers, mysql}, {game, mysql}, {daemon, kafka}}},
	} {
		for _, cut := range []struct {
			name string
			do   func(*pipelinetest.ToxicProxy)
		}{
			{"requests", (*pipelinetest.ToxicProxy).CutUpstream},
			{"answers", (*pipelinetest.ToxicProxy).CutDownstream},
			{"both", (*pipelinetest.ToxicProxy).Cut},
		} {
			each := func(do func(*pipelinetest.ToxicProxy)) {
				for _, w := range together.ways {
					for _, s := range w.from {
						do(w.to(s.links))
					}
				}
			}
			d.fault(t, together.name+": "+cut.name, 10*time.Second, func() {
				each(cut.do)
				time.Sleep(10 * time.Second) // the length of the fault
				each((*pipelinetest.ToxicProxy).Heal)
			})
		}
	}
}
