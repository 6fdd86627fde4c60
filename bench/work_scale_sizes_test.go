package bench_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// sizes measures what rows, entries and processes take.
func sizes(w *world, f *report.Figures) {
	w.work(true)
	n := w.bench.count(1_000_000)
	for _, perOwner := range []int64{1, 10, 1000} {
		what := fmt.Sprintf("%d an owner", perOwner)
		var before float64
		w.indexAnew(func() {
			w.empty()
			before = w.memory()
			w.plantSpread(planted{n: n, owners: max(n/perOwner, 1), from: farOff, spread: month})
		})
		f.Add("Redis, a pending task, "+what, (w.memory()-before)/float64(n), "B")
		w.tableSizes(f, "a pending row, "+what, "duetime_tasks", n)
	}
	w.daemon.Stop(w)
	w.finishPlanted()
	w.tableSizes(f, "a finished row", "duetime_tasks", n)
	w.exec("TRUNCATE TABLE duetime_history")
	w.exec(`INSERT INTO duetime_history (at, task, event, actor, detail)
		SELECT updated_at, id, 'moved', 'service', 'by -2h0m0s to 2026-03-01T14:00:00.000Z' FROM duetime_tasks`)
	w.tableSizes(f, "a line of the history", "duetime_history", n)
	w.empty()
	w.daemon = w.ready("daemon")
	w.awaitWhole()
	w.connections(f)
}

// tableSizes adds what a row of the table takes, with its indexes: by MySQL's statistics, and of the table's file.
func (w *world) tableSizes(f *report.Figures, what, table string, n int64) {
	w.Helper()
	w.written()
	w.exec("ANALYZE TABLE " + table)
	var data, indexes int64
	var folder, schema string
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT DATA_LENGTH, INDEX_LENGTH, @@datadir, DATABASE() FROM information_schema.TABLES "+
		"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", table).Scan(&data, &indexes, &folder, &schema))
	file, err := os.Stat(filepath.Join(folder, schema, table+".ibd"))
	pipelinetest.Must(w, err)
	f.Text("MySQL, "+what, fmt.Sprintf("%d B and %d B of indexes; %d B of the file", data/n, indexes/n, file.Size()/n))
}

// finishPlanted finishes all rows in the order of their due times, as workers would. It leaves gaps where the pending rows stood
// in the indexes.
func (w *world) finishPlanted() {
	w.Helper()
	const parts = 200
	var from, to int64
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT MIN(run_at), MAX(run_at) + 1 FROM duetime_tasks").Scan(&from, &to))
	for i := range int64(parts) {
		w.exec("UPDATE duetime_tasks SET state = 1, version = version + 1, updated_at = run_at, finished_at = run_at "+
			"WHERE state = 0 AND run_at >= ? AND run_at < ?", from+(to-from)*i/parts, from+(to-from)*(i+1)/parts)
	}
}

// connections adds how many each process has to each server, at rest and after a burst.
func (w *world) connections(f *report.Figures) {
	w.Helper()
	processes := map[string]int{
		"event": w.event.Pid(), "daemon": w.daemon.Pid(), "a worker": w.worker.cmd.Process.Pid, "a service that schedules": w.producer.cmd.Process.Pid,
	}
	count := func(when string) {
		for _, name := range slices.Sorted(maps.Keys(processes)) {
			f.Text("connections of "+name+", "+when, w.openConnections(processes[name]))
		}
	}
	w.quieten()
	time.Sleep(10 * time.Second)
	count("at rest")
	w.drained(w.bench.count(50_000))
	count("after a burst of 50,000")
}

// openConnections counts a process's connections to each server.
func (w *world) openConnections(pid int) string {
	w.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	pipelinetest.Must(w, err)
	remote := map[string]string{} // by the socket's inode
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[3] == established {
			_, port, _ := strings.Cut(fields[2], ":")
			remote[fields[9]] = port
		}
	}
	sockets, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	pipelinetest.Must(w, err)
	open := map[string]int{}
	for _, fd := range sockets {
		target, _ := os.Readlink(fd) // one that was closed meanwhile leads nowhere
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			open[remote[strings.TrimSuffix(inode, "]")]]++
		}
	}
	counts := []string{}
	for _, s := range []struct{ name, addr string }{
		{"MySQL", w.sqlAddr()}, {"Redis", w.deployment.Redis}, {"Kafka", w.deployment.Kafka}, {"ZooKeeper", w.deployment.ZooKeeper},
	} {
		counts = append(counts, fmt.Sprintf("%s %d", s.name, open[hexPort(w, s.addr)]))
	}
	return strings.Join(counts, ", ")
}

const established = "01" // in /proc/net/tcp

// hexPort is an address's port as /proc/net/tcp has it.
func hexPort(w *world, addr string) string {
	w.Helper()
	_, text, err := net.SplitHostPort(addr)
	pipelinetest.Must(w, err)
	port, err := strconv.ParseUint(text, 10, 16)
	pipelinetest.Must(w, err)
	return strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
}

func (w *world) sqlAddr() string {
	_, addr, _ := strings.Cut(w.deployment.DSN, "tcp(")
	addr, _, _ = strings.Cut(addr, ")")
	return addr
}
