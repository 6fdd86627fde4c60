package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Two deployments on one Kafka share neither a topic nor a group, wherever their names have dots.
func TestNamesOfTwoDeploymentsDiffer(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"a", "b", "q", "compensate", "dead"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), ".")
	})
	rapid.Check(t, func(t *rapid.T) {
		topics, groups := map[string]string{}, map[string]string{}
		for _, ns := range rapid.SliceOfNDistinct(name, 2, 3, rapid.ID).Draw(t, "namespaces") {
			queues := slices.DeleteFunc(rapid.SliceOfNDistinct(name, 1, 3, rapid.ID).Draw(t, "queues"),
				func(q string) bool { return q == "compensate" }) // the configuration refuses this name
			c := Config{Namespace: ns, Queues: append(queues, "x")}
			if c.Validate() != nil {
				continue
			}
			n := names{ns}
			take(t, topics, n.deadLetterTopic(), ns+" dead")
			take(t, topics, n.compensations().topic, ns+" compensate")
			take(t, groups, n.compensations().group, ns+" compensate")
			for _, q := range c.Queues {
				take(t, topics, n.queue(q).topic, fmt.Sprint(ns, " queue ", q))
				take(t, groups, n.queue(q).group, fmt.Sprint(ns, " queue ", q))
			}
		}
	})
}

func take(t *rapid.T, taken map[string]string, name, by string) {
	if other, twice := taken[name]; twice {
		t.Fatalf("%s and %s are both %s", other, by, name)
	}
	taken[name] = by
}

// The topics and groups of deployments without dots in their names must not change: offsets are stored under them.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string][2]string{
		"default": {"prod.shop.q.default", "prod.shop.default"}, "mail.high": {"prod.shop.q.mail.high", "prod.shop.q.mail.high"},
	} {
		if topic, group := QueueNames("prod.shop", queue); topic != want[0] || group != want[1] {
			t.Errorf("%s: topic %s and group %s, want %v", queue, topic, group, want)
		}
	}
}
