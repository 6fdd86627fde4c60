package bench_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// idleShards is how many duetime has when its idle cost is measured: more than most need, and each costs something.
const idleShards = 64

// standing measures what pending jobs cost in memory, and what it costs when nothing happens.
func standing(w *world) {
	n := w.bench.count(100_000)
	if ours(w.system) {
		w.repeat(func(int) { w.record(report.BytesTwo, w.bytes(n, 2)) })
	}
	if w.redis != nil {
		w.repeat(func(int) { w.record(report.BytesAlone, w.bytes(n, 1)) })
	} else {
		w.preload(n, 1)
	}
	if ours(w.system) {
		w.exec("TRUNCATE TABLE duetime_tasks")
		pipelinetest.Must(w, w.redis.FlushAll(w.Context()).Err())
		w.work(true)
		w.stand(n)
	} else {
		w.work(true)
	}
	time.Sleep(w.bench.seconds(3 * time.Second)) // what follows the start, sweeps and rebuilds, is no idle time
	for range w.often() {
		w.idle()
	}
}

// bytes is what a pending job takes of an otherwise empty Redis.
func (w *world) bytes(n, perOwner int64) float64 {
	w.Helper()
	w.preload(warmUp, 1) // what is made once, as scripts are, is no cost of a job
	if ours(w.system) {
		w.exec("TRUNCATE TABLE duetime_tasks") // or the daemon would put them all back later
	}
	pipelinetest.Must(w, w.redis.FlushAll(w.Context()).Err())
	empty := w.memory()
	w.preload(n, perOwner)
	if ours(w.system) {
		w.indexed(n)
	}
	return (w.memory() - empty) / float64(n)
}

// memory is what Redis uses, less what connections and the log's buffer take for a moment.
func (w *world) memory() float64 {
	w.Helper()
	if w.redis == nil {
		return 0
	}
	clients, err := w.redis.ClientList(w.Context()).Result()
	pipelinetest.Must(w, err)
	used := w.info("memory", "used_memory") - w.info("memory", "mem_aof_buffer")
	for _, m := range regexp.MustCompile(`tot-mem=(\d+)`).FindAllStringSubmatch(clients, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		pipelinetest.Must(w, err)
		used -= n
	}
	return used
}

func (w *world) info(section, name string) float64 {
	w.Helper()
	text, err := w.redis.Info(w.Context(), section).Result()
	pipelinetest.Must(w, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.ParseFloat(value, 64)
			pipelinetest.Must(w, err)
			return n
		}
	}
	w.Fatalf("Redis tells no %s", name)
	return 0
}

// idle measures for a while in which nothing is due.
func (w *world) idle() {
	w.Helper()
	long := w.bench.seconds(10 * time.Second)
	pids := map[report.Metric]int{report.IdleWorker: w.worker.cmd.Process.Pid}
	if ours(w.system) {
		pids[report.IdleEvent], pids[report.IdleDaemon] = w.event.Pid(), w.daemon.Pid()
	}
	before := map[report.Metric]time.Duration{}
	began := time.Now()
	for m, pid := range pids {
		before[m] = cpu(w, pid)
	}
	if w.redis == nil {
		time.Sleep(long)
	} else {
		asked, all := w.commands(long)
		w.record(report.IdleCommands, asked/long.Seconds())
		w.record(report.IdleScripted, all/long.Seconds())
	}
	for m, pid := range pids {
		w.record(m, 100*float64(cpu(w, pid)-before[m])/float64(time.Since(began)))
	}
}

// commands listens for so long to what Redis is asked, and counts commands: those of clients, and with those that
// scripts make.
func (w *world) commands(long time.Duration) (asked, all float64) {
	w.Helper()
	conn, err := net.Dial("tcp", w.env.Redis)
	pipelinetest.Must(w, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("MONITOR\r\n"))
	pipelinetest.Must(w, err)
	pipelinetest.Must(w, conn.SetReadDeadline(time.Now().Add(long)))
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return asked, all
		}
		pipelinetest.Must(w, err)
		if strings.HasPrefix(line, "+OK") {
			continue
		}
		all++
		if !strings.Contains(line, " lua]") {
			asked++
		}
	}
}
