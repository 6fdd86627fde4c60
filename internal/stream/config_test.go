package stream

import (
	"strings"
	"testing"
	"time"
)

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"namespace":             {Namespace: "a b"},
		"queues":                {Namespace: "a", Queues: []string{"x:y"}},
		"kafka.partitions":      {Namespace: "a", Partitions: -1},
		"kafka.replication":     {Namespace: "a", Replication: 99},
		"kafka.session_timeout": {Namespace: "a", SessionTimeout: time.Millisecond},
		"heartbeat":             {Namespace: "a", SessionTimeout: time.Second, Heartbeat: time.Second},
		"kafka.brokers":         {Namespace: "a"},
	} {
		if _, err := NewKafka(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
