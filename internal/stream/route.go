package stream

import (
	"hash/fnv"

	"github.com/duetime/duetime/internal/protocol"
)

// partitionOf places a key in one of n partitions. An owner's hints share the partition that Kafka's own clients would
// choose for the owner. A hint that goes on (protocol.RouteKey) is placed some strides further.
func partitionOf(key []byte, n int) int {
	if n <= 1 {
		return 0
	}
	owner, strides := protocol.SplitRoute(key)
	if strides == 0 {
		owner = key
	}
	h := fnv.New32a()
	_, _ = h.Write(owner)
	p := int(int32(h.Sum32()) % int32(n)) //nolint:gosec // as Kafka's own clients compute it; n is at most 10,000
	if p < 0 {
		p = -p
	}
	return (p + strides*stride(n)) % n
}

// stride is how many partitions a hint goes on at a time. It is a little more than half of them, so that a hint soon
// leaves the partitions of one worker, whether those are neighbours or every second one. It has no common factor with
// their number, so that a hint visits all of them.
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
