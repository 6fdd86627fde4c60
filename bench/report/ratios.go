package report

import "slices"

// compared are the metrics of the table of ratios.
var compared = []Metric{
	LagP50, LagP99, LagEffect, BurstEffect, BurstEmpty, Accept8, Accept64, AcceptBulk8, Moved, BytesAlone,
}

// ratios compares duetime with every other system, and tells what that one loses when it is killed.
func (r *Results) ratios() table {
	columns := slices.DeleteFunc(slices.Clone(compared), func(m Metric) bool {
		_, ok := r.Median(Duetime, m)
		return !ok
	})
	t := table{head: []string{"system"}}
	for _, m := range columns {
		t.head = append(t.head, m.Work+": "+m.Name)
	}
	t.head = append(t.head, "killed: effects lost / doubled")
	for _, s := range r.Systems {
		cells, some := []string{s.Title}, false
		for _, m := range columns {
			v, ok := r.better(s.Name, m)
			some = some || ok
			cells = append(cells, times(v, ok))
		}
		cells = append(cells, r.killed(s.Name))
		if some && s.Name != Duetime {
			t.rows = append(t.rows, cells)
		}
	}
	return t
}

// better is how many times better duetime is than the row.
func (r *Results) better(row string, m Metric) (float64, bool) {
	ours, have := r.Median(Duetime, m)
	theirs, has := r.Median(row, m)
	if m.rate() {
		ours, theirs = theirs, ours
	}
	if !have || !has || ours <= 0 || theirs <= 0 {
		return 0, false
	}
	return theirs / ours, true
}

// killed tells what a kill -9 cost the row.
func (r *Results) killed(row string) string {
	lost, ok := r.Median(row, KillLost)
	if !ok {
		return ""
	}
	doubled, _ := r.Median(row, KillDoubled)
	return number(lost) + " / " + number(doubled)
}

func times(v float64, ok bool) string {
	if !ok {
		return ""
	}
	return number(v) + "×"
}

// limits sets duetime's figures beside the raw ones.
func (r *Results) limits() table {
	t := table{head: []string{"duetime", "figure", "limit", "of the limit"}}
	for _, l := range []struct {
		text  string
		value quantity
		limit quantity
	}{
		{"burst with effects, tasks/s: the same statements in batches of 100", of(Duetime, BurstEffectRate), of(Raw, RawBatch)},
		{"burst of four times as many, tasks/s: the same statements", of(Duetime, BurstLargeRate), of(Raw, RawBatchLarge)},
		{"accepting one by one, 8 callers: inserting one row", of(Duetime, Accept8), of(Raw, RawInsert8)},
		{"accepting one by one, 64 callers: inserting one row", of(Duetime, Accept64), of(Raw, RawInsert64)},
		{"accepting in bulk: inserting many rows", bulk(Duetime), rawBulk},
		{"moving: compare-and-set of one row", of(Duetime, Moved), of(Raw, RawSwap)},
		{"moving an owner's 100 one by one: compare-and-set of one row", of(Duetime, MovedAlone), of(Raw, RawSwapAlone)},
		{"moving an owner's 100 in one call: locking and moving 100 rows", of(Duetime, MovedTogether), of(Raw, RawShift)},
		{"rebuild, rows/s, two ZADD each: ZADD in pipelines", of(Duetime, RebuildRate), of(Raw, RawZAdd)},
		{"burst with an empty handler, tasks/s: Kafka, produce", of(Duetime, BurstEmptyRate), of(Raw, RawProduce)},
		{"burst with an empty handler, tasks/s: Kafka, fetch", of(Duetime, BurstEmptyRate), of(Raw, RawFetch)},
	} {
		v, have := l.value(r)
		limit, has := l.limit(r)
		if have && has && limit > 0 {
			t.rows = append(t.rows, []string{l.text, number(v), number(limit), number(v / limit)})
		}
	}
	return t
}
