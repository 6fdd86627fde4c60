package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// raced are the arguments of go test for the race detector. SQLite is C made into Go: the detector finds nothing of ours in it,
// and doubles the time of all tests that use it.
var raced = []string{"-race", "-gcflags=modernc.org/...=-race=false -d=checkptr=0"}

// sqlPackages are those that speak SQL, or judge implementations that do: what differs between servers shows in them.
var sqlPackages = []string{
	"./internal/store", "./pkg/console/internal/views", "./internal/test/protocoltest", "./internal/test/contract",
}

// sqlCallers are those above whose locks, transactions and rights lie with the server: make nightly runs them on each.
var sqlCallers = []string{"./internal/worker", "./internal/reconcile", "./internal/test/e2e"}

// processes are packages whose subject runs in processes of its own, which are built as a release is: the detector would see the
// test alone.
var processes = []string{"./cmd/...", "./internal/test/chaos/...", "./internal/test/contract/...", "./internal/test/e2e/..."}

func newSession(ctx context.Context, tier string, out screen) (*session, error) {
	sql, err := pipelinetest.SQL()
	if err != nil {
		return nil, fmt.Errorf("choose the SQL server: %w", err)
	}
	s := &session{tier: tier, out: out, began: time.Now(), page: "docs/TESTING.md"}
	if s.legs, err = promiseLegs(ctx, sql); err != nil {
		return nil, err
	}
	switch tier {
	case "test":
	case "check":
		s.legs = append(s.legs, otherServers(sql, sqlPackages)...)
	case "nightly":
		s.legs = append(s.legs, otherServers(sql, slices.Concat(sqlPackages, sqlCallers))...)
		s.legs = append(s.legs, moduleLegs(sql)...)
	default:
		return nil, fmt.Errorf("there is no tier %q: test, check, nightly", tier)
	}
	if s.costs, err = newCosts(); err != nil {
		return nil, err
	}
	if s.lent, s.stop, err = pipelinetest.Lend(); err != nil {
		s.costs.close()
		return nil, err
	}
	return s, nil
}

func (s *session) close() {
	s.stop()
	s.costs.close()
}

// promiseLegs hold each promise on one SQL server.
func promiseLegs(ctx context.Context, sql string) ([]leg, error) {
	all, err := list(ctx, "./...")
	if err != nil {
		return nil, err
	}
	apart, err := list(ctx, processes...)
	if err != nil {
		return nil, err
	}
	inside := slices.DeleteFunc(all, func(p string) bool { return slices.Contains(apart, p) })
	return []leg{
		{title: "with the race detector, on " + sql, dir: ".", sql: sql, args: raced, packages: inside},
		{title: "processes, on " + sql, dir: ".", sql: sql, packages: processes},
	}, nil
}

// list names the packages that the patterns match.
func list(ctx context.Context, patterns ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list"}, patterns...)...).Output() //nolint:gosec // our own patterns
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// otherServers are the packages on the SQL servers besides the first one. What runs on SQLite has run already, and so have the scripts.
func otherServers(first string, packages []string) []leg {
	if os.Getenv("DUETIME_TEST_SQL") != "" {
		return nil
	}
	var legs []leg
	for _, sql := range []string{"mysql8", "mariadb"} {
		if sql == first {
			continue
		}
		legs = append(legs, leg{
			title: "SQL on " + sql, dir: ".", sql: sql, own: true, packages: packages,
			args: []string{"-skip", "TestContract/broken|TestRaces|SQLite|./(?i)sqlite|././(?i)sqlite"},
		})
	}
	return legs
}

// moduleLegs are the modules besides the library: pages in a browser, manifests, alerts, examples, and what the benchmark counts
// and reports, without its peers.
func moduleLegs(sql string) []leg {
	legs := []leg{{title: "bench", dir: "bench", sql: sql, own: true, packages: []string{".", "./driver", "./report"}}}
	for _, pattern := range []string{"deploy", "deploy/*", "examples/*", "internal/test/*"} {
		mods, _ := filepath.Glob(filepath.Join(pattern, "go.mod")) // the patterns are well formed
		for _, mod := range mods {
			dir := filepath.Dir(mod)
			legs = append(legs, leg{title: dir, dir: dir, sql: sql, own: true, packages: []string{"./..."}})
		}
	}
	return legs
}
