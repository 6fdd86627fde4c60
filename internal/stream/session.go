package stream

import (
	"context"
	"slices"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const fetchLimit = 1000 // deliveries of one Fetch, at most

// Session is one generation of a consumer group as its member sees it (see the package's doc). It is an alias of an
// unnamed interface so that a stage can declare the same interface without importing this package.
//
// Partitions returns the assigned partitions, perhaps none. Fetch returns the available deliveries, at least one and at
// most 1,000, in offset order within a partition, and waits only while there is none. It returns ErrSessionOver once the
// session was lost, or ctx's error. Commit stores the next offset to read of each given partition, within three seconds.
// It returns ErrSessionOver once the group has moved on. Lost is closed when the session ends: on Kafka when the group's
// next generation begins, so that a member that can't reach the coordinator goes on with its partitions. One goroutine
// may fetch while others commit. Share returns the part of the queue's tasks that the member looks for itself, and Brings
// whether the task's hint would come to this member.
type Session = interface {
	Share() protocol.Share
	Brings(t task.Task) bool
	Partitions() []int
	Fetch(ctx context.Context) ([]protocol.Delivery, error)
	Commit(ctx context.Context, next map[int]int64) error
	Lost() <-chan struct{}
}

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
