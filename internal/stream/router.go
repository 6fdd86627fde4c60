package stream

import (
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/pkg/task"
)

// router chooses partitions by the keys of hints: those of an owner share the one that Kafka's own clients would choose for
// the owner, and a hint that goes on (task.RouteKey) has one that is so many strides further.
type router struct{ hash kafka.Hash }

// Balance returns the message's partition.
func (r *router) Balance(m kafka.Message, partitions ...int) int {
	owner, on := task.SplitRoute(m.Key)
	if on == 0 || len(partitions) == 0 {
		return r.hash.Balance(m, partitions...)
	}
	m.Key = owner
	from := r.hash.Balance(m, partitions...)
	return partitions[(from+on*stride(len(partitions)))%len(partitions)]
}

// stride is how many partitions on a hint goes at once: half of them and a little, so that it leaves the partitions of one
// worker soon, be they neighbours or every second one, and without a common factor, so that it comes by all of them.
func stride(partitions int) int {
	n := partitions/2 + 1
	for gcd(n, partitions) != 1 {
		n++
	}
	return n
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
