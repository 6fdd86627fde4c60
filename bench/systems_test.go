package bench_test

import (
	"time"

	"github.com/duetime/duetime/bench/report"
)

// system is one row of the tables, and what the benchmark must know to run it fairly.
type system struct {
	name, title, settings string

	redis, postgres, rabbitmq, rocketmq bool   // the servers that it needs beside MySQL
	redisHz                             string // how often Redis looks after waiting clients in a second; empty is its default, 10

	node    bool // its driver is bullmq/driver.mjs
	java    bool // its driver is in java
	ownRows bool // it writes its rows itself, so none is made for it
	paces   bool // jobs due one after the other are handed over just in time, so that making them takes as long
	fixed   bool // it knows some fixed delays only, so jobs due at one instant are handed over just in time, too
	lagOnly bool // of the works with effects it only has the lag measured
	once    bool // it has one run of each work
	spare   bool // further runs only as far as the time allows

	// ahead is the least time before the first due time at which jobs are made: where it says that jobs made later may
	// be late, they are made earlier.
	ahead time.Duration
	// patience is how long after a kill it takes, by its own settings, until what was running is run again.
	patience time.Duration

	accepts, moves, grows, stands bool // which of these works are measured of it
}

// workers is how many handlers of each system run side by side: with as many connections MySQL does most single
// effects a second.
const workers = 32

// javaStart is beyond what a Java process takes to run its first jobs: nothing is run again in systems that wait no longer.
const javaStart = 10 * time.Second

// systems are all rows: duetime, then the peers, then what people build by hand.
var systems = []system{
	{
		name: report.Duetime, title: "**duetime**", redis: true, ownRows: true, patience: 30 * time.Second, accepts: true, moves: true, stands: true,
		settings: "defaults; event, worker and daemon a process each; a batch handler: the effects of a batch are one statement",
	},
	{
		name: report.Asynq, title: "asynq, tuned", redis: true, patience: 110 * time.Second, accepts: true, grows: true, stands: true,
		settings: "both polls each 1 ms instead of 1 s and 5 s; due times are whole seconds, cut off, so tasks start early",
	},
	{
		name: "asynq-defaults", title: "asynq, defaults", redis: true, spare: true, lagOnly: true,
		settings: "polls each second and each 5 s",
	},
	{
		name: report.River, title: "river", postgres: true, ahead: 7 * time.Second, patience: 35 * time.Second,
		accepts: true, grows: true, stands: true,
		settings: "Postgres with a flush at each commit; fetches each 1 ms, 1,000 at most; for kill -9 it rescues after 3 s instead of 1 h; jobs " +
			"made 7 s ahead at least, since its scheduler looks each 5 s",
	},
	{
		name: report.BullMQ, title: "BullMQ", redis: true, node: true, patience: 95 * time.Second, accepts: true, moves: true, grows: true, stands: true,
		settings: "one worker, addBulk of 1,000, finished jobs removed at once",
	},
	{
		name: "bullmq-hz", title: "BullMQ, Redis at hz 100", redis: true, node: true, redisHz: "100", spare: true, lagOnly: true,
		settings: "its worker waits for the next delayed job inside Redis, which ends such a wait ten times a second by default",
	},
	{
		name: report.RabbitMQ, title: "RabbitMQ, a queue per delay", rabbitmq: true, paces: true, ahead: 4 * time.Second,
		settings: "time to live of the queue and dead-letter exchange; durable queues, persistent messages, confirms, prefetch 300; " +
			"tasks due one after the other are published 3 s ahead. Can't move or cancel",
	},
	{
		name: "rabbitmq-ttl", title: "RabbitMQ, time to live per message", rabbitmq: true,
		settings: "one queue for all delays: only its head expires",
	},
	{
		name: "rocketmq-levels", title: "RocketMQ, delay levels", rocketmq: true, java: true, paces: true, fixed: true, once: true,
		ahead: 7 * time.Second, patience: 25 * time.Second,
		settings: "a flush before each answer instead of one each 500 ms, 32 consuming threads; one of 18 fixed delays: tasks are " +
			"handed over 5 s ahead, those due at one instant as fast as possible from then on. Can't move or cancel",
	},
	{
		name: "rocketmq-timers", title: "RocketMQ, timer messages", rocketmq: true, java: true, once: true,
		patience: 25 * time.Second,
		settings: "the same flushes and threads; a timer wheel of 100 ms, the least, instead of 1 s. Can't move",
	},
	{
		name: "redisson", title: "Redisson, RDelayedQueue", redis: true, java: true, once: true, patience: javaStart, moves: true,
		settings: "32 threads that take from the queue; moved by removing and offering again, each of the two a call",
	},
	{
		name: "jesque", title: "Jesque, delayed jobs", redis: true, java: true, once: true, patience: javaStart,
		settings: "32 workers; one that finds nothing due sleeps for 500 ms, which can't be set. Can't move",
	},
	{
		name: report.Scan, title: "table scan", ownRows: true, spare: true, accepts: true, moves: true, stands: true,
		settings: "each second, 1,000 rows at a time; the row is claimed in the effect's transaction",
	},
	{
		name: "zset", title: "ZSET, polled", redis: true, spare: true, moves: true, stands: true,
		settings: "ZRANGEBYSCORE each 50 ms, ZREM by the handler",
	},
}
