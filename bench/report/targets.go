package report

// quantity is something that is computed of the medians; false if a part of it was not measured.
type quantity func(*Results) (float64, bool)

func of(row string, m Metric) quantity {
	return func(r *Results) (float64, bool) { return r.Median(row, m) }
}

func over(a, b quantity) quantity {
	return func(r *Results) (float64, bool) {
		x, have := a(r)
		y, has := b(r)
		if !have || !has || y == 0 {
			return 0, false
		}
		return x / y, true
	}
}

// inTurns is the median of what a quantity is in each run, of works whose systems take turns or go round: each run has its
// own minutes.
func inTurns(q quantity) quantity {
	return func(r *Results) (float64, bool) {
		var values []float64
		for run := 0; ; run++ {
			v, ok := q(r.only(run))
			if !ok {
				return Median(values), len(values) > 0
			}
			values = append(values, v)
		}
	}
}

// worst is the largest of the runs: what must never happen must not in any of them.
func worst(row string, m Metric) quantity {
	return func(r *Results) (float64, bool) { return r.Worst(row, m) }
}

// least is the smallest of all, most the largest; false if one of them is missing, or the others would be easier to beat.
func least(of ...quantity) quantity { return pick(of, func(a, b float64) bool { return a < b }) }
func most(of ...quantity) quantity  { return pick(of, func(a, b float64) bool { return a > b }) }

func pick(of []quantity, prefer func(a, b float64) bool) quantity {
	return func(r *Results) (best float64, ok bool) {
		for i, q := range of {
			v, ok := q(r)
			if !ok {
				return 0, false
			}
			if i == 0 || prefer(v, best) {
				best = v
			}
		}
		return best, true
	}
}

// sum is that of all; false if one of them is missing.
func sum(of ...quantity) quantity {
	return func(r *Results) (total float64, ok bool) {
		for _, q := range of {
			v, ok := q(r)
			if !ok {
				return 0, false
			}
			total += v
		}
		return total, true
	}
}

func bulk(row string) quantity { return most(of(row, AcceptBulk8), of(row, AcceptBulk64)) }

var rawBulk = most(of(Raw, RawInsert100), of(Raw, RawInsert1000))

// grown is the burst rate at a level against that of the deployment beside it, which has stayed at the lowest.
func grown(level string) quantity {
	return inTurns(over(of(At(Duetime, level), GrowthRate), of(At(Duetime, level), GrowthSmall)))
}

// target is a figure that duetime has to reach.
type target struct {
	text    string
	value   quantity
	atLeast bool
	bound   float64
	bonus   bool // only noted
	apart   bool // measured by a call of its own
}

func atMost(text string, value quantity, bound float64) target {
	return target{text: text, value: value, bound: bound}
}

func atLeast(text string, value quantity, bound float64) target {
	return target{text: text, value: value, bound: bound, atLeast: true}
}

func noted(t target) target { t.bonus = true; return t }
func apart(t target) target { t.apart = true; return t }

func allTargets() []target {
	peers := least(of(Asynq, BurstEffect), of(BullMQ, BurstEffect), of(RabbitMQ, BurstEffect), of(River, BurstEffect))
	written := func(m Metric) quantity { return inTurns(over(of(Duetime, m), most(of(Asynq, m), of(BullMQ, m)))) }
	return []target{
		atMost("lag, start p50, ms", of(Duetime, LagP50), 1),
		atMost("lag, start p99, ms", of(Duetime, LagP99), 10),
		atMost("lag, start p99 ÷ BullMQ's", over(of(Duetime, LagP99), of(BullMQ, LagP99)), 0.1),
		atMost("lag, start p99 ÷ river's", over(of(Duetime, LagP99), of(River, LagP99)), 0.15),
		atMost("lag, effect committed p99, ms", of(Duetime, LagEffect), 15),
		atMost("lag, early, in any run", worst(Duetime, LagEarly), 0),
		atMost("lag, not run, in any run", worst(Duetime, LagLost), 0),
		noted(atMost("lag, start p99, ms", of(Duetime, LagP99), 7)),
		noted(atMost("lag, start p99 ÷ RabbitMQ's", over(of(Duetime, LagP99), of(RabbitMQ, LagP99)), 1)),
		atMost("burst with effects ÷ the fastest of asynq, BullMQ, RabbitMQ, river", inTurns(over(of(Duetime, BurstEffect), peers)), 0.2),
		atMost("burst with effects ÷ the table scan's", inTurns(over(of(Duetime, BurstEffect), of(Scan, BurstEffect))), 0.3),
		atLeast("burst with effects, rate ÷ raw batches", inTurns(over(of(Duetime, BurstEffectRate), of(Raw, RawBatch))), 0.55),
		atMost("burst with an empty handler ÷ BullMQ's", inTurns(over(of(Duetime, BurstEmpty), of(BullMQ, BurstEmpty))), 0.7),
		atLeast("burst of four times as many, rate ÷ the burst's", inTurns(over(of(Duetime, BurstLargeRate), of(Duetime, BurstAround))), 0.85),
		atLeast("accepting one by one, 8 callers ÷ raw insert", inTurns(over(of(Duetime, Accept8), of(Raw, RawInsert8))), 0.8),
		atLeast("accepting one by one, 64 callers ÷ raw insert", inTurns(over(of(Duetime, Accept64), of(Raw, RawInsert64))), 0.8),
		atLeast("accepting one by one, 8 callers ÷ the better of asynq and BullMQ", written(Accept8), 1.1),
		atLeast("accepting one by one, 64 callers ÷ the better of asynq and BullMQ", written(Accept64), 1.1),
		atLeast("accepting in bulk ÷ raw batched insert", inTurns(over(bulk(Duetime), rawBulk)), 0.5),
		atLeast("accepting in bulk ÷ asynq's", inTurns(over(bulk(Duetime), bulk(Asynq))), 1.3),
		atLeast("moving ÷ raw compare-and-set", inTurns(over(of(Duetime, Moved), of(Raw, RawSwap))), 0.7),
		atLeast("moving an owner's 100 in one call ÷ one by one", inTurns(over(of(Duetime, MovedTogether), of(Duetime, MovedAlone))), 20),
		atLeast("burst rate at 1M pending ÷ at 10k", grown("1M"), 0.9),
		atLeast("burst rate at 10M pending ÷ at 10k", grown("10M"), 0.75),
		atMost("lag, start p99, at 10M pending ÷ at 10k", over(of(At(Duetime, "10M"), GrowthLag), of(At(Duetime, "10k"), GrowthLag)), 1.5),
		atMost("Redis per pending task, two an owner ÷ asynq's", over(of(Duetime, BytesTwo), of(Asynq, BytesAlone)), 0.45),
		atMost("Redis per pending task, one an owner ÷ asynq's", over(of(Duetime, BytesAlone), of(Asynq, BytesAlone)), 0.55),
		atMost("idle with 64 shards, Redis commands/s", of(Duetime, IdleCommands), 64),
		atMost("idle, event, worker and daemon, % of a core", sum(of(Duetime, IdleEvent), of(Duetime, IdleWorker), of(Duetime, IdleDaemon)), 3),
		atLeast("rebuild, rows/s", of(Duetime, RebuildRate), 100_000),
		atMost("due at a flush with 1M pending, last effect after, s", of(Duetime, RebuildFire), 2),
		atMost("kill -9 of the worker, lost, in any run", worst(Duetime, KillLost), 0),
		atMost("kill -9 of the worker, doubled, in any run", worst(Duetime, KillDoubled), 0),
		atMost("kill -9 of the worker, all done after the restart, s, in any run", worst(Duetime, KillHealed), 10),
		apart(atLeast("burst with metrics and history ÷ without both", over(of(Duetime, ObservedRate), of(Duetime, SilentRate)), 0.95)),
		atMost("works of systems that failed", func(r *Results) (float64, bool) { return float64(len(r.Failed)), true }, 0),
	}
}

// targets is the table of what was to be reached.
func (r *Results) targets() table {
	t := table{head: []string{"what", "value", "target", ""}}
	for _, want := range allTargets() {
		v, ok := want.value(r)
		switch {
		case ok:
			t.rows = append(t.rows, []string{want.text, number3(v), want.limit(), want.verdict(v)})
		case r.Whole && !want.apart:
			t.rows = append(t.rows, []string{want.text, "not measured", want.limit(), "**miss**"})
		}
	}
	return t
}

func (t target) limit() string {
	if t.atLeast {
		return "≥ " + number3(t.bound)
	}
	return "≤ " + number3(t.bound)
}

func (t target) verdict(v float64) string {
	reached := v <= t.bound
	if t.atLeast {
		reached = v >= t.bound
	}
	switch {
	case reached && t.bonus:
		return "reached"
	case t.bonus:
		return "not reached"
	case reached:
		return "pass"
	}
	return "**miss**"
}
