package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// onScale is what BENCH_WHAT says to have measured what one deployment of duetime carries: the figures of docs/SCALING.md.
const onScale = "scale"

// scalePart is a table of docs/SCALING.md.
type scalePart struct {
	name string
	opts options
	do   func(*world, *report.Figures)
}

var scaleParts = []scalePart{
	{name: "sizes", do: sizes},
	{name: "growth", do: shardGrowth, opts: options{shards: 8}},
	{name: "sharing", do: sharing, opts: options{rules: []string{fmt.Sprintf("DUETIME_KAFKA__PARTITIONS=%d", sharingPartitions)}}},
	{name: "purge", do: purging},
	{name: "recurrences", do: recurring},
	{name: "ordering", do: ordering},
	{name: "bulk", do: bulkShift},
	{name: "reads", do: reads},
	{name: "pages", do: pages, opts: options{rules: []string{"DUETIME_INDEX__HORIZON=10m"}}},
	{name: "horizon", do: horizon, opts: options{rules: []string{"DUETIME_INDEX__HORIZON=10m"}}},
}

// partsToMeasure are those that BENCH_PARTS names, or all.
func partsToMeasure(t *testing.T) []scalePart {
	t.Helper()
	names := os.Getenv("BENCH_PARTS")
	if names == "" {
		return scaleParts
	}
	var chosen []scalePart
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(scaleParts, func(p scalePart) bool { return p.name == name })
		if i < 0 {
			t.Fatalf("BENCH_PARTS: there is no part %q", name)
		}
		chosen = append(chosen, scaleParts[i])
	}
	return chosen
}

// measureScale measures one part after the other, each on fresh servers, and writes its table into the docs.
func (b *bench) measureScale(t *testing.T) {
	t.Helper()
	subject := systems[slices.IndexFunc(systems, ours)]
	b.results = new(report.Results)
	for _, p := range partsToMeasure(t) {
		began := time.Now()
		f := &report.Figures{Part: p.name}
		ok := t.Run(p.name, func(t *testing.T) { p.do(b.open(t, subject, p.opts), f) })
		f.Circumstances = b.scaleCircumstances(t, "BENCH_PARTS="+p.name+" bench/run scale", time.Since(began))
		fmt.Println(f.Markdown())
		if ok && b.scale == 1 {
			pipelinetest.Must(t, f.Write(filepath.Join("..", "docs", "SCALING.md")))
		}
	}
}

func (b *bench) scaleCircumstances(t *testing.T, call string, took time.Duration) string {
	t.Helper()
	return fmt.Sprintf("%s, `%s` of %s, %v, on %d cores of %s, %s of memory, %s.",
		time.Now().UTC().Format("2006-01-02"), call, commit(t), took.Round(time.Second), runtime.NumCPU(), processor(t), memory(t),
		pipelinetest.MySQL(t).Version(t))
}

// planted are pending rows whose due times are spread evenly, in another order than their ids.
type planted struct {
	n, owners    int64
	from, spread time.Duration // the first is due after from, the last spread later
}

const month = 30 * 24 * time.Hour

// plantSpread inserts the rows by SQL, as docs/SQL-CONTRACT.md has it. Their owners are player-0, player-1 and so on, in turn,
// and their payloads have 100 bytes. The rows are as if made an hour ago: the daemon compares whatever was made just now.
func (w *world) plantSpread(p planted) {
	w.Helper()
	const part = 50_000
	began := time.Now()
	for first := int64(0); first < p.n; first += part {
		w.exec(fmt.Sprintf(`
			INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
			SELECT UNHEX(CONCAT('01970000000070009', LPAD(HEX(seq), 15, '0'))), 'pet.meal', owner, 'default', CRC32(owner) MOD shards, due, due,
			       CONCAT(RPAD(CONCAT('{"id":', seq, ',"due":', due * 1000, ',"note":"'), 98, 'x'), '"}'), now - 3600000, now - 3600000
			FROM duetime_layout, (
				SELECT seq, CONCAT('player-', seq MOD %d) AS owner, now + %d + seq * 2654435761 MOD %d AS due, now
				FROM %s, (SELECT `+rawNow+` AS now) AS clock
			) AS spread ORDER BY seq`,
			p.owners, p.from.Milliseconds(), p.spread.Milliseconds(), pipelinetest.Numbers(first, min(first+part, p.n)-1)))
	}
	w.Logf("%d rows planted in %v", p.n, time.Since(began).Round(100*time.Millisecond))
}

// empty removes all tasks and entries while the daemon is away.
func (w *world) empty() {
	w.Helper()
	w.exec("TRUNCATE TABLE duetime_tasks")
	pipelinetest.Must(w, w.redis.FlushAll(w.Context()).Err())
}
