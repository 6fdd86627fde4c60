package main

import (
	"context"

	"github.com/duetime/duetime/bench/alternative/scan"
	"github.com/duetime/duetime/bench/alternative/zset"
	"github.com/duetime/duetime/bench/duetime"
	"github.com/duetime/duetime/bench/peer/asynq"
	"github.com/duetime/duetime/bench/peer/rabbitmq"
	"github.com/duetime/duetime/bench/peer/river"
	"github.com/duetime/duetime/bench/queue"
)

// systems opens each measured system by its name in the table. BullMQ has a driver of its own, in bench/bullmq.
var systems = map[string]func(ctx context.Context, env queue.Env) (queue.Queue, error){
	"duetime": duetime.Open,

	"asynq":          asynq.Open,
	"asynq-defaults": asynq.OpenDefaults,
	"river":          river.Open,
	"rabbitmq":       rabbitmq.Open,
	"rabbitmq-ttl":   rabbitmq.OpenTTL,

	"scan": scan.Open,
	"zset": zset.Open,
}
