package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// onServers is what BENCH_WHAT says to have duetime measured on several SQL servers in one call.
const onServers = "servers"

// serverWorks are measured on each of them.
var serverWorks = []string{"accept", "move", "burst", "lag"}

// sqlServers are those that BENCH_SQL names, as DUETIME_TEST_SQL does, each with arguments for its command line.
func sqlServers() []string {
	if names := os.Getenv("BENCH_SQL"); names != "" {
		return strings.Split(names, ",")
	}
	return []string{"mysql9", "mysql9 --skip-log-bin", "mariadb"}
}

// compareServers measures duetime, and what its statements cost alone, on one SQL server after the other, and writes the
// tables beside each other into the docs.
func (b *bench) compareServers(t *testing.T) {
	t.Helper()
	t.Setenv("BENCH_SYSTEMS", report.Duetime)
	all := report.Servers{}
	given := os.Getenv("BENCH_SQL_ARGS")
	for _, name := range sqlServers() {
		server, args, _ := strings.Cut(name, " ")
		t.Setenv("DUETIME_TEST_SQL", server)
		t.Setenv("BENCH_SQL_ARGS", strings.TrimSpace(args+" "+given))
		b.results = new(report.Results)
		b.until = time.Now()
		title := ""
		t.Run(name, func(t *testing.T) {
			title = strings.TrimSpace(pipelinetest.OwnMySQL(t).Version(t) + " " + args)
			for _, w := range works {
				if slices.Contains(serverWorks, w.name) {
					b.until = b.until.Add(w.budget)
					b.do(t, w)
				}
			}
		})
		all.Titles, all.Results = append(all.Titles, title), append(all.Results, b.results)
	}
	command := "bench/run " + b.what
	if given != "" {
		command = fmt.Sprintf("BENCH_SQL_ARGS=%q %s", given, command)
	}
	all.Circumstances = circumstances(t, command, time.Since(b.began))
	fmt.Println(all.Markdown())
	if b.scale == 1 && b.runs == 3 && given == "" {
		pipelinetest.Must(t, all.Write(filepath.Join("..", "docs", "BENCHMARKS.md")))
	}
}
