package protocol

import "hash/crc32"

// Shard returns the shard of n in which an owner's new tasks are indexed. SQL computes the same as CRC32(owner) MOD n.
func Shard(owner string, n int) int {
	return int(crc32.ChecksumIEEE([]byte(owner)) % uint32(n)) //nolint:gosec // n is a small positive count
}
