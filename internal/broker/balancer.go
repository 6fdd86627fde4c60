package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

const partitionsPollInterval = 2 * time.Second

// countingBalancer records how many partitions its balancer assigned. Only the group's leader assigns, for all members.
type countingBalancer struct {
	kafka.GroupBalancer
	assigned *atomic.Pointer[int]
}

// AssignGroups is called by the library while the group is joined.
func (b countingBalancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	b.assigned.Store(new(len(partitions)))
	return b.GroupBalancer.AssignGroups(members, partitions)
}

// watchPartitions ends the generation once the topic has more or fewer partitions than this member assigned as the
// group's leader. When the leader joins again, all other members join again. The library's own watch compares with the
// number that it finds when it begins: a topic that came back between the assignment and that moment would never be
// assigned.
func (m *member) watchPartitions(ctx context.Context, assigned int) {
	ticker := time.NewTicker(partitionsPollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n, err := m.c.Partitions(ctx, m.topic.Name)
		if n != assigned && (err == nil || errors.Is(err, kafka.UnknownTopicOrPartition)) {
			m.c.cfg.Logger.Info("partitions changed", "queue", m.topic.Name, "n", n)
			return
		}
	}
}
