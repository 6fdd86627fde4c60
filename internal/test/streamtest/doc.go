// Package streamtest has the stream on brokers in memory, for tests without Kafka. Its partitions, groups, generations and
// commits behave like Kafka's: both pass the same tests in internal/stream. A topic has one group, and keeps only what the
// group has not committed.
package streamtest
