package stream

import (
	"hash/fnv"

	"github.com/duetime/duetime/pkg/task"
)

// partitionOf places a key in one of n partitions. An owner's hints share the partition that Kafka's own clients would
// choose for the owner, and a hint that goes on (task.RouteKey) has a partition that is so many strides further.
func partitionOf(key []byte, n int) int {
	if n <= 1 {
		return 0
	}
	owner, strides := task.SplitRoute(key)
	if strides == 0 {
		owner = key
	}
	h := fnv.New32a()
	_, _ = h.Write(owner)
	p := int(int32(h.Sum32()) % int32(n)) //nolint:gosec // as Kafka's own clients have it; n is at most 10,000
	if p < 0 {
		p = -p
	}
	return (p + strides*stride(n)) % n
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
