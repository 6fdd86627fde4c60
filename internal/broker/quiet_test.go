package broker

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// While Kafka is away all partitions of all queues together write one line, with their number.
func TestStalledPartitionsShareALine(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c, err := New(Config{Addrs: []string{"127.0.0.1:1"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, c.Close()) }()
	away := errors.New("kafka is away")
	for _, topic := range []string{"cakes", "cards"} {
		f := newFetcher(t.Context(), c, topic)
		for partition := range 8 {
			r := &reader{c: c, fetcher: f, partition: partition, log: c.cfg.Logger} // without progress since the year 1
			r.handle(t.Context(), away)
			r.progress = time.Time{}
			r.handle(t.Context(), away)
		}
		f.close()
		(&member{c: c, topic: Topic{Name: topic}}).warn(away)
	}
	for _, text := range []string{"partition makes no progress", "joining the group is being tried again"} {
		if n := strings.Count(log.String(), text); n != 1 {
			t.Errorf("%q: %d lines, want 1:\n%s", text, n, log.String())
		}
	}
	log.Reset()
	c.stalls.Warn(c.cfg.Logger, time.Now().Add(time.Minute), "later")
	if !strings.Contains(log.String(), "n=32\n") {
		t.Errorf("said %q, want the 31 before counted", log.String())
	}
}
