package report

import "strings"

// Metric is one thing that is measured of a row.
type Metric struct{ Work, Name, Unit string }

// rate reports whether more is better.
func (m Metric) rate() bool { return strings.HasSuffix(m.Unit, "/s") }

// The rows that targets speak of.
const (
	Duetime  = "duetime"
	Asynq    = "asynq"
	River    = "river"
	BullMQ   = "bullmq"
	RabbitMQ = "rabbitmq"
	Scan     = "scan"
	Raw      = "raw"
)

// The metrics by work, in the order of the columns.
var (
	LagP50     = Metric{"lag", "start p50", "ms"}
	LagP99     = Metric{"lag", "start p99", "ms"}
	LagMax     = Metric{"lag", "start max", "ms"}
	LagEffect  = Metric{"lag", "effect committed p99", "ms"}
	LagEarly   = Metric{"lag", "early", ""}
	LagLost    = Metric{"lag", "not run", ""}
	BlockedP50 = Metric{"blocked", "start p50", "ms"}
	BlockedMax = Metric{"blocked", "start max", "ms"}

	BurstEffect     = Metric{"burst", "effect each", "s"}
	BurstEffectRate = Metric{"burst", "effect each, tasks", "/s"}
	BurstEmpty      = Metric{"burst", "empty handler", "s"}
	BurstEmptyRate  = Metric{"burst", "empty handler, tasks", "/s"}
	BurstLarge      = Metric{"burst", "four times as many, effect each", "s"}
	BurstLargeRate  = Metric{"burst", "four times as many, tasks", "/s"}
	BurstAround     = Metric{"burst", "effect each, around those, tasks", "/s"}

	ObservedRate = Metric{"observed", "with metrics and history, tasks", "/s"}
	SilentRate   = Metric{"observed", "without both, tasks", "/s"}

	Accept8      = Metric{"accept", "one by one, 8 callers", "/s"}
	Accept64     = Metric{"accept", "one by one, 64 callers", "/s"}
	AcceptBulk8  = Metric{"accept", "in bulk, 8 callers", "/s"}
	AcceptBulk64 = Metric{"accept", "in bulk, 64 callers", "/s"}
	AcceptOwn8   = Metric{"accept", "in InTx with a row of one's own, 8 callers", "/s"}
	AcceptOwn64  = Metric{"accept", "in InTx with a row of one's own, 64 callers", "/s"}

	Moved         = Metric{"move", "one by one, 32 callers", "/s"}
	MovedAlone    = Metric{"move", "an owner's 100, one by one, 1 caller", "/s"}
	MovedTogether = Metric{"move", "an owner's 100 in one call, 1 caller", "/s"}

	GrowthRate  = Metric{"growth", "burst, tasks", "/s"}
	GrowthSmall = Metric{"growth", "beside it, with 10k pending: burst, tasks", "/s"}
	GrowthLag   = Metric{"growth", "start p99", "ms"}
	GrowthBytes = Metric{"growth", "Redis per pending task", "B"}
	GrowthLoad  = Metric{"growth", "loading, tasks", "/s"}

	BytesAlone   = Metric{"standing", "Redis per pending task, one an owner", "B"}
	BytesTwo     = Metric{"standing", "Redis per pending task, two an owner", "B"}
	IdleCommands = Metric{"standing", "idle, Redis commands", "per s"}
	IdleScripted = Metric{"standing", "idle, with those inside scripts", "per s"}
	IdleWorker   = Metric{"standing", "idle, worker", "% of a core"}
	IdleEvent    = Metric{"standing", "idle, event", "% of a core"}
	IdleDaemon   = Metric{"standing", "idle, daemon", "% of a core"}

	RebuildRate = Metric{"rebuild", "rows", "/s"}
	RebuildTook = Metric{"rebuild", "whole", "s"}
	RebuildFire = Metric{"rebuild", "due at the flush, last effect after it", "s"}

	RawBatch      = Metric{"raw", "SQL: lock, done, effect of 100, 4 connections, tasks", "/s"}
	RawBatchLarge = Metric{"raw", "SQL: the same, four times as many", "/s"}
	RawInsert8    = Metric{"raw", "SQL: insert one, 8 connections", "/s"}
	RawInsert64   = Metric{"raw", "SQL: insert one, 64 connections", "/s"}
	RawInsert100  = Metric{"raw", "SQL: insert 100, 8 connections, rows", "/s"}
	RawInsert1000 = Metric{"raw", "SQL: insert 1,000, 8 connections, rows", "/s"}
	RawSwap       = Metric{"raw", "SQL: compare-and-set, 32 connections", "/s"}
	RawSwapAlone  = Metric{"raw", "SQL: compare-and-set, 1 connection", "/s"}
	RawShift      = Metric{"raw", "SQL: lock and move 100, 1 connection, rows", "/s"}
	RawZAdd       = Metric{"raw", "Redis: ZADD in pipelines of 100, 4 connections", "/s"}
	RawProduce    = Metric{"raw", "Kafka: produce, 100 a call, 8 callers, messages", "/s"}
	RawFetch      = Metric{"raw", "Kafka: fetch by a group's consumer, messages", "/s"}

	KillLost    = Metric{"kill", "lost", ""}
	KillDoubled = Metric{"kill", "doubled", ""}
	KillHealed  = Metric{"kill", "last effect after the restart", "s"}
	KillAt      = Metric{"kill", "done when killed", "%"}
)

// section is one table of the report.
type section struct {
	work, title, text string
	metrics           []Metric
}

var sections = []section{
	{
		"lag", "Firing lag",
		"Tasks due evenly at 500/s for 20 s, while 100,000 more are pending for later; each effect is a row marked done and a " +
			"pet fed in one MySQL transaction. `start` is from the due time to the handler's begin.",
		[]Metric{LagP50, LagP99, LagMax, LagEffect, LagEarly, LagLost},
	},
	{
		"blocked", "A blocked head",
		"RabbitMQ with a time to live on each message: 1,000 tasks due over 2 s, behind one with a delay of 12 s.",
		[]Metric{BlockedP50, BlockedMax},
	},
	{
		"burst", "Burst",
		"50,000 tasks due at one instant: from there to the last effect's commit, and with a handler that does nothing.",
		[]Metric{BurstEffect, BurstEffectRate, BurstEmpty, BurstEmptyRate, BurstLarge, BurstLargeRate, BurstAround},
	},
	{
		"observed", "The cost of being seen",
		"Bursts of 50,000 with an effect each, in turns: with metrics, read once in the middle of each, and history, and by a build without both.",
		[]Metric{ObservedRate, SilentRate},
	},
	{
		"accept", "Accepting",
		"Tasks made with a durable row: duetime's row is its own, the others' is one in MySQL that is written first.",
		[]Metric{Accept8, Accept64, AcceptBulk8, AcceptBulk64, AcceptOwn8, AcceptOwn64},
	},
	{
		"move", "Moving", "Pending tasks that get another due time, out of 100,000.",
		[]Metric{Moved, MovedAlone, MovedTogether},
	},
	{
		"growth", "Growth", "A burst and then 5 s at 500/s, with an effect each, while so much is pending for later: duetime's bursts are of 50,000; the " +
			"others' are of 10,000. Beside duetime's at 1M and 10M, a second deployment, which has 10k pending, makes bursts in turn with it.",
		[]Metric{GrowthRate, GrowthSmall, GrowthLag, GrowthBytes, GrowthLoad},
	},
	{
		"standing", "Standing cost", "100,000 tasks pending; then nothing happens for 10 s (duetime with 64 shards).",
		[]Metric{BytesAlone, BytesTwo, IdleCommands, IdleScripted, IdleWorker, IdleEvent, IdleDaemon},
	},
	{
		"rebuild", "Recovery", "FLUSHALL with 1,000,000 tasks pending, until the index is whole again; 1,000 tasks become due right after it.",
		[]Metric{RebuildRate, RebuildTook, RebuildFire},
	},
	{
		"kill", "kill -9", "kill -9 of the only worker in the middle of a burst of 5,000, and its restart.",
		[]Metric{KillLost, KillDoubled, KillHealed, KillAt},
	},
	{
		"raw", "Raw limits", "What the parts themselves do on this machine, in the same call.",
		[]Metric{RawBatch, RawBatchLarge, RawInsert8, RawInsert64, RawInsert100, RawInsert1000, RawSwap, RawSwapAlone, RawShift, RawZAdd, RawProduce, RawFetch},
	},
}

// At names the row of a system with so much pending.
func At(system, level string) string { return system + levelMark + level + " pending" }

const levelMark = ", "

func cutLevel(row string) (name, level string) {
	name, level, found := strings.Cut(row, levelMark)
	if found {
		level = levelMark + level
	}
	return name, level
}
