package stream

import (
	"context"
	"slices"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const fetchLimit = 1000 // deliveries of one Fetch, at most

// hintSession decodes the records of a queue's topic.
type hintSession struct {
	Records
	metrics *metrics
}

// Share returns the part of the queue's tasks that falls to the assigned partitions.
func (s hintSession) Share() protocol.Share {
	return protocol.Share{Of: s.Count(), Mine: s.Partitions()}
}

// Brings reports whether the task's hint would come to this session.
func (s hintSession) Brings(t task.Task) bool {
	return slices.Contains(s.Partitions(), partitionOf([]byte(routeOf(t)), s.Count()))
}

func routeOf(t task.Task) string {
	return protocol.RouteKey(protocol.Route(t.Owner, t.OrderKey), protocol.ScoreOf(t))
}

// Fetch returns the available deliveries, at least one.
func (s hintSession) Fetch(ctx context.Context) ([]protocol.Delivery, error) {
	records, err := s.Records.Fetch(ctx, fetchLimit)
	if err != nil {
		return nil, err
	}
	return decodeDeliveries(records, s.metrics), nil
}
