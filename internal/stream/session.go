package stream

import (
	"context"

	"github.com/duetime/duetime/internal/broker"
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
// may fetch while others commit.
type Session = interface {
	Partitions() []int
	Fetch(ctx context.Context) ([]task.Delivery, error)
	Commit(ctx context.Context, next map[int]int64) error
	Lost() <-chan struct{}
}

// recordSession is a session whose records are still encoded.
type recordSession interface {
	Partitions() []int
	Fetch(ctx context.Context, limit int) ([]broker.Record, error)
	Commit(ctx context.Context, next map[int]int64) error
	Lost() <-chan struct{}
}

var (
	_ recordSession = (*broker.Session)(nil)
	_ recordSession = (*localSession)(nil)
)

// hintSession decodes the records of a queue's topic.
type hintSession struct {
	recordSession
	metrics *metrics
}

// Fetch returns the available deliveries, at least one.
func (s hintSession) Fetch(ctx context.Context) ([]task.Delivery, error) {
	records, err := s.recordSession.Fetch(ctx, fetchLimit)
	if err != nil {
		return nil, err
	}
	return decodeDeliveries(records, s.metrics), nil
}
