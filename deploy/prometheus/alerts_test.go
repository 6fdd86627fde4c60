package prometheus_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// healthy are series of a deployment where all is well, in the notation of Prometheus's own tests: STEP is the seconds
// between two samples, COUNT their number.
var healthy = map[string]string{
	`duetime_leader{instance="event-1"}`:                                               "1xCOUNT",
	`duetime_leader{instance="event-2"}`:                                               "0xCOUNT",
	`duetime_daemon_leader{instance="daemon-1"}`:                                       "1xCOUNT",
	`duetime_oldest_unfinished_due_age_seconds{instance="daemon-1",queue="default"}`:   "0.2xCOUNT",
	`duetime_server_up{instance="daemon-1",server="mysql"}`:                            "1xCOUNT",
	`duetime_server_up{instance="daemon-1",server="redis"}`:                            "1xCOUNT",
	`duetime_server_up{instance="daemon-1",server="kafka"}`:                            "1xCOUNT",
	`duetime_server_up{instance="daemon-2",server="redis"}`:                            "0xCOUNT", // one that alone doesn't reach it
	`duetime_zookeeper_connected{instance="event-1"}`:                                  "1xCOUNT",
	`duetime_consumer_lag_hints{instance="daemon-1",queue="default"}`:                  "9000-20xCOUNT", // a burst, and the workers get through it
	`duetime_worker_degraded{instance="worker-1",queue="default"}`:                     "0xCOUNT",
	`duetime_push_breaker_open{instance="worker-1",endpoint="shop:443"}`:               "0xCOUNT",
	`duetime_purge_behind_seconds{instance="daemon-1"}`:                                "0xCOUNT",
	`duetime_database_oldest_transaction_seconds{instance="daemon-1"}`:                 "0+STEPx200 0xCOUNT", // a dump of 50 minutes
	`duetime_redis_evicted_keys_total{instance="daemon-1"}`:                            "17xCOUNT",
	`duetime_index_drift_total{instance="daemon-1",kind="k",direction="missing"}`:      "4xCOUNT",
	`duetime_tasks_settled_total{instance="worker-1",kind="k",result="dead"}`:          "3xCOUNT",
	`duetime_tasks{instance="daemon-1",state="dead"}`:                                  "0xCOUNT",
	`duetime_tasks_settled_total{instance="worker-1",kind="k",result="done"}`:          "0+1000xCOUNT",
	`duetime_loop_last_success_timestamp_seconds{instance="daemon-1",loop="overdue"}`:  "0+STEPxCOUNT",
	`duetime_loop_last_success_timestamp_seconds{instance="daemon-1",loop="purge"}`:    "-600+STEPxCOUNT",
	`duetime_loop_last_success_timestamp_seconds{instance="event-1",loop="dispatch"}`:  "0+STEPxCOUNT",
	`duetime_fire_lag_seconds_count{instance="worker-1",kind="k"}`:                     "0+10000xCOUNT",
	`duetime_fire_lag_seconds_bucket{instance="worker-1",kind="k",le="1"}`:             "0+9995xCOUNT", // half of what is allowed
	`duetime_fire_lag_seconds_bucket{instance="worker-1",kind="k",le="+Inf"}`:          "0+10000xCOUNT",
	`duetime_build_info{instance="event-1",process="event",version="v1",revision="r"}`: "1xCOUNT",
	`duetime_build_info{instance="api-1",process="api",version="v1",revision="r"}`:     "1xCOUNT",
	`duetime_clock_gap_seconds{instance="worker-1"}`:                                   "-0.4xCOUNT",
	`duetime_database_full_total{instance="worker-1"}`:                                 "2xCOUNT",
	`duetime_index_puts_total{instance="game-1",result="failed"}`:                      "7xCOUNT",
	`duetime_go_sql_wait_duration_seconds_total{instance="game-1",db_name="client"}`:   "0+1xCOUNT",
	`process_resident_memory_bytes{instance="event-1"}`:                                "300000000xCOUNT",
	`go_gc_gomemlimit_bytes{instance="event-1"}`:                                       "480000000xCOUNT",
	`process_resident_memory_bytes{instance="api-1"}`:                                  "900000000xCOUNT",
	`go_gc_gomemlimit_bytes{instance="api-1"}`:                                         "9.2e18xCOUNT", // no limit
	`duetime_witness_faults_total{instance="daemon-1",fault="doubled"}`:                "2xCOUNT",      // of days ago
	`up{instance="worker-1",job="duetime-worker"}`:                                     "1xCOUNT",
	`duetime_processes{instance="daemon-1",process="worker",state="alive"}`:            "2x100 1x4 2xCOUNT", // one crashed, and was replaced
	`duetime_processes{instance="daemon-1",process="worker",state="silent"}`:           "0x104 1xCOUNT",
	`duetime_processes{instance="daemon-1",process="worker",state="stuck"}`:            "0xCOUNT",
}

const (
	fires    = `duetime_fire_lag_seconds_count{instance="worker-1",kind="k"}`
	onTime   = `duetime_fire_lag_seconds_bucket{instance="worker-1",kind="k",le="1"}`
	lags     = `duetime_consumer_lag_hints{instance="daemon-1",queue="default"}`
	open     = `duetime_push_breaker_open{instance="worker-1",endpoint="shop:443"}`
	waits    = `duetime_pushes_total{instance="worker-1",endpoint="shop:443",outcome="waiting"}`
	refuse   = `duetime_pushes_total{instance="worker-1",endpoint="shop:443",outcome="refused"}`
	putOff   = `duetime_pushes_total{instance="worker-1",endpoint="shop:443",outcome="put_off"}`
	resident = `process_resident_memory_bytes{instance="event-1"}`
	pushed   = `duetime_pushes_total{instance="worker-1",endpoint="shop:443",outcome="done"}`
	alive    = `duetime_processes{instance="daemon-1",process="worker",state="alive"}`
	silent   = `duetime_processes{instance="daemon-1",process="worker",state="silent"}`
	stuck    = `duetime_processes{instance="daemon-1",process="worker",state="stuck"}`
)

// TestAlerts has each alert fire on what it is for, and no other; and none while all is well.
func TestAlerts(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		title  string
		series map[string]string // in place of the healthy ones; empty: absent
		length time.Duration     // of the history; default 1 h
		want   []string          // what fires at its end
	}{
		{title: "healthy"},
		{title: "healthy for three days", length: 3 * day},
		{"2 % late", map[string]string{onTime: "0+9800xCOUNT"}, 3 * day, []string{
			"DuetimeLateBurn14x", "DuetimeLateBurn1x", "DuetimeLateBurn3x", "DuetimeLateBurn6x",
		}},
		{"1 % late, written as newer servers do", map[string]string{
			onTime: "", strings.Replace(onTime, `le="1"`, `le="1.0"`, 1): "0+9900xCOUNT",
		}, 3 * day, []string{"DuetimeLateBurn1x", "DuetimeLateBurn3x", "DuetimeLateBurn6x"}},
		{"0.4 % late", map[string]string{onTime: "0+9960xCOUNT"}, 3 * day, []string{"DuetimeLateBurn1x", "DuetimeLateBurn3x"}},
		{"0.15 % late", map[string]string{onTime: "0+9985xCOUNT"}, 3 * day, []string{"DuetimeLateBurn1x"}},
		// All late for the hour before the last half: the long windows say so still, the short ones know that it is over.
		{"all late for a while, and over", map[string]string{onTime: "0+10000x4200 42000000+0x60 42000000+10000x60"}, 3 * day, []string{"DuetimeLateBurn1x", "DuetimeLateBurn3x"}},
		{"one of twenty late in an hour", map[string]string{
			fires: "0x100 0+1x9 10+0x119 11+1x9 20x20", onTime: "0x100 0+1x9 10x119 10+1x9 19x20",
		}, 0, nil},
		{"twenty of forty late, at the end", map[string]string{fires: "0x220 0+2x20", onTime: "0x220 0+1x20"}, 0, []string{"DuetimeLateBurn14x"}},
		{"a new deployment's first burst is late, and over", map[string]string{
			fires: "_x170 0x5 0+1000x5 5000x60", onTime: "_x170 0x5 0+900x5 4500x60",
		}, 0, nil},
		{"the oldest waits", map[string]string{`duetime_oldest_unfinished_due_age_seconds{instance="daemon-1",queue="default"}`: "0+STEPxCOUNT"}, 0, []string{"DuetimeOldestDueOld"}},
		{"workers fall behind", map[string]string{lags: "0+50xCOUNT"}, 0, []string{"DuetimeConsumerLagGrowing"}},
		{"a limited queue falls behind", map[string]string{lags: "0+50xCOUNT", `duetime_queue_limited{instance="worker-1",queue="default"}`: "1xCOUNT"}, 0, nil},
		{"workers fall behind without a limit in their way", map[string]string{lags: "0+50xCOUNT", `duetime_queue_limited{instance="worker-1",queue="default"}`: "0xCOUNT"}, 0, []string{"DuetimeConsumerLagGrowing"}},
		{"a paused queue falls behind", map[string]string{lags: "0+50xCOUNT", `duetime_queue_paused{instance="daemon-1",queue="default"}`: "1xCOUNT"}, 0, nil},
		{"a small lag grows", map[string]string{lags: "0+1xCOUNT"}, 0, nil},
		{"nobody leads", map[string]string{`duetime_leader{instance="event-1"}`: "0xCOUNT"}, 0, []string{"DuetimeNoLeader"}},
		{"no event process at all", map[string]string{`duetime_leader{instance="event-1"}`: "", `duetime_leader{instance="event-2"}`: ""}, 0, []string{"DuetimeNoLeader"}},
		{"no daemon at all", map[string]string{`duetime_daemon_leader{instance="daemon-1"}`: ""}, 0, []string{"DuetimeNoDaemonLeader"}},
		{"mysql away", map[string]string{
			`duetime_server_up{instance="daemon-1",server="mysql"}`: "0xCOUNT", `duetime_oldest_unfinished_due_age_seconds{instance="daemon-1",queue="default"}`: "",
		}, 0, []string{"DuetimeMySQLLost"}},
		{"mysql's disk is full", map[string]string{`duetime_database_full_total{instance="worker-1"}`: "2x230 2+1xCOUNT"}, 0, []string{"DuetimeMySQLFull"}},
		{"two event processes lead", map[string]string{`duetime_leader{instance="event-2"}`: "0x230 1xCOUNT"}, 0, []string{"DuetimeTwoLeaders"}},
		{"two daemons lead", map[string]string{`duetime_daemon_leader{instance="daemon-2"}`: "0x230 1xCOUNT"}, 0, []string{"DuetimeTwoLeaders"}},
		{"another event process takes over", map[string]string{
			`duetime_leader{instance="event-1"}`: "1x238 0xCOUNT", `duetime_leader{instance="event-2"}`: "0x237 1xCOUNT",
		}, 0, nil},
		{"the api is away", map[string]string{`duetime_build_info{instance="api-1",process="api",version="v1",revision="r"}`: "1x200"}, 0, []string{"DuetimeAPIAway"}},
		{"there is no api", map[string]string{`duetime_build_info{instance="api-1",process="api",version="v1",revision="r"}`: ""}, 0, nil},
		{"half of the workers are away", map[string]string{`duetime_worker_degraded{instance="worker-2",queue="default"}`: "0x150"}, 0, []string{"DuetimeWorkersAway"}},
		{"a third of the workers is away", map[string]string{
			`duetime_worker_degraded{instance="worker-2",queue="default"}`: "0xCOUNT", `duetime_worker_degraded{instance="worker-3",queue="default"}`: "0x150",
		}, 0, nil},
		{"a worker crashed, and none took its place", map[string]string{alive: "2x220 1xCOUNT"}, 0, []string{"DuetimeProcessSilent"}},
		{"a worker has been silent for a minute", map[string]string{alive: "2x235 1xCOUNT"}, 0, nil},
		{"a worker was stopped", map[string]string{alive: "2x200 1xCOUNT", silent: "0xCOUNT"}, 0, nil},
		{"a handler does not end", map[string]string{stuck: "0x220 1xCOUNT"}, 0, []string{"DuetimeProcessStuck"}},
		{"a handler ended a minute after its time", map[string]string{stuck: "0x230 1x4 0xCOUNT"}, 0, nil},
		{"a process is not scraped", map[string]string{`up{instance="worker-1",job="duetime-worker"}`: "1x210 0xCOUNT"}, 0, []string{"DuetimeNotScraped"}},
		{"another program is not scraped", map[string]string{`up{instance="shop",job="shop"}`: "0xCOUNT"}, 0, nil},
		{"a clock is two minutes behind", map[string]string{`duetime_clock_gap_seconds{instance="worker-1"}`: "120xCOUNT"}, 0, []string{"DuetimeClockGap"}},
		{"a clock is two minutes ahead", map[string]string{`duetime_clock_gap_seconds{instance="worker-1"}`: "-120xCOUNT"}, 0, []string{"DuetimeClockGap"}},
		{"callers wait for connections", map[string]string{`duetime_go_sql_wait_duration_seconds_total{instance="game-1",db_name="client"}`: "0+60xCOUNT"}, 0, []string{"DuetimePoolWaits"}},
		{"a process takes almost all its memory", map[string]string{resident: "300000000x180 450000000xCOUNT"}, 0, []string{"DuetimeMemoryHigh"}},
		{"a process took almost all its memory for five minutes", map[string]string{resident: "300000000x220 450000000xCOUNT"}, 0, nil},
		{"another program takes almost all its memory", map[string]string{
			`process_resident_memory_bytes{instance="shop"}`: "450000000xCOUNT", `go_gc_gomemlimit_bytes{instance="shop"}`: "480000000xCOUNT",
		}, 0, nil},
		{"puts fail", map[string]string{`duetime_index_puts_total{instance="game-1",result="failed"}`: "7x180 7+1xCOUNT"}, 0, []string{"DuetimeIndexPutsFail"}},
		{"puts are skipped while redis is away", map[string]string{
			`duetime_index_puts_total{instance="game-1",result="skipped"}`: "0+1xCOUNT", `duetime_server_up{instance="daemon-1",server="redis"}`: "0xCOUNT",
		}, 0, []string{"DuetimeRedisLost"}},
		{"redis away", map[string]string{`duetime_server_up{instance="daemon-1",server="redis"}`: "0xCOUNT"}, 0, []string{"DuetimeRedisLost"}},
		{"kafka away", map[string]string{`duetime_server_up{instance="daemon-1",server="kafka"}`: "0xCOUNT"}, 0, []string{"DuetimeKafkaLost"}},
		{"zookeeper away", map[string]string{`duetime_zookeeper_connected{instance="event-1"}`: "0xCOUNT"}, 0, []string{"DuetimeZooKeeperLost"}},
		{"finished tasks stay for long", map[string]string{`duetime_purge_behind_seconds{instance="daemon-1"}`: "0x110 4000xCOUNT"}, 0, []string{"DuetimePurgeBehind"}},
		{"finished tasks stayed for a quarter of an hour", map[string]string{`duetime_purge_behind_seconds{instance="daemon-1"}`: "0x180 4000xCOUNT"}, 0, nil},
		{"a transaction stays open", map[string]string{`duetime_database_oldest_transaction_seconds{instance="daemon-1"}`: "3300+STEPxCOUNT"}, 0, []string{"DuetimeTransactionOld"}},
		{"a transaction was open for an hour", map[string]string{`duetime_database_oldest_transaction_seconds{instance="daemon-1"}`: "3300+STEPx35 0xCOUNT"}, 0, nil},
		{"the daemon may not see transactions", map[string]string{`duetime_database_oldest_transaction_seconds{instance="daemon-1"}`: ""}, 0, nil},
		{"a worker looks for tasks in MySQL", map[string]string{`duetime_worker_degraded{instance="worker-1",queue="default"}`: "0x230 1xCOUNT"}, 0, []string{"DuetimeWorkersDegraded"}},
		{"a worker looked for tasks for half a minute", map[string]string{`duetime_worker_degraded{instance="worker-1",queue="default"}`: "0x238 1xCOUNT"}, 0, nil},
		{"a dead task stands", map[string]string{`duetime_tasks{instance="daemon-1",state="dead"}`: "1xCOUNT"}, 0, []string{"DuetimeTasksDead"}},
		{"a dead task was retried", map[string]string{`duetime_tasks{instance="daemon-1",state="dead"}`: "1x200 0xCOUNT"}, 0, nil},
		{"a kind that nobody handles", map[string]string{`duetime_tasks_unhandled_total{instance="worker-1",queue="default",kind="meel"}`: "0+1xCOUNT"}, 0, []string{"DuetimeUnknownKind"}},
		{"a kind that nobody handles, and workers without metrics", map[string]string{`duetime_unhandled_tasks{instance="daemon-1",queue="default",kind="meel"}`: "1xCOUNT"}, 0, []string{"DuetimeUnknownKind"}},
		{"a kind that nobody handled during a rollout", map[string]string{`duetime_tasks_unhandled_total{instance="worker-1",queue="default",kind="meel"}`: "0+1x100 100xCOUNT"}, 0, nil},
		{"an endpoint is away", map[string]string{open: "0x220 1xCOUNT", waits: "0x220 0+1xCOUNT"}, 0, []string{"DuetimeEndpointAway"}},
		{"an endpoint was away for a minute", map[string]string{open: "0x235 1xCOUNT", waits: "0x235 0+1xCOUNT"}, 0, nil},
		{"an endpoint is back, and no task closes the breaker", map[string]string{open: "1xCOUNT", waits: "0+1x100 100xCOUNT"}, 0, nil},
		{"an endpoint refuses all tasks", map[string]string{refuse: "0x180 0+1xCOUNT", pushed: "0+1x170 170xCOUNT"}, 0, []string{"DuetimeEndpointRefuses"}},
		{"an endpoint puts all tasks off", map[string]string{putOff: "0x180 0+1xCOUNT"}, 0, []string{"DuetimeEndpointRefuses"}},
		{"an endpoint refuses some tasks", map[string]string{refuse: "0x180 0+1xCOUNT", pushed: "0+1xCOUNT"}, 0, nil},
		{"an endpoint refused all tasks for five minutes", map[string]string{refuse: "0x220 0+1xCOUNT"}, 0, nil},
		{"an endpoint refuses one task, which is tried each two minutes", map[string]string{refuse: "0+0.125xCOUNT"}, 0, nil},
		{"drift that goes on", map[string]string{`duetime_index_drift_total{instance="daemon-1",kind="k",direction="missing"}`: "0+1xCOUNT"}, 0, []string{"DuetimeDrift"}},
		{"drift that was mended", map[string]string{`duetime_index_drift_total{instance="daemon-1",kind="k",direction="missing"}`: "4x230 9xCOUNT"}, 0, nil},
		{"the witness sees a second effect", map[string]string{`duetime_witness_faults_total{instance="daemon-1",fault="doubled"}`: "2x230 3xCOUNT"}, 0, []string{"DuetimePromiseBroken"}},
		{"redis evicts", map[string]string{`duetime_redis_evicted_keys_total{instance="daemon-1"}`: "17x220 18xCOUNT"}, 0, []string{"DuetimeRedisEvicts"}},
		{"a sweep stopped", map[string]string{`duetime_loop_last_success_timestamp_seconds{instance="daemon-1",loop="overdue"}`: "0+STEPx220 3300xCOUNT"}, 0, []string{"DuetimeSweepStopped"}},
		{"operations stopped", map[string]string{`duetime_loop_last_success_timestamp_seconds{instance="daemon-1",loop="operations"}`: "0+STEPx170 2550xCOUNT"}, 0, []string{"DuetimeSweepStopped"}},
		{"the purge stopped", map[string]string{`duetime_loop_last_success_timestamp_seconds{instance="daemon-1",loop="purge"}`: "0xCOUNT"}, 0, []string{"DuetimeSweepStopped"}},
	} {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			series := maps.Clone(healthy)
			maps.Copy(series, c.series)
			got := fired(t, series, max(c.length, time.Hour))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("fired (-want +got):\n%s", d)
			}
		})
	}
}

// in is the series of a deployment.
func in(namespace, series string) string {
	return strings.Replace(series, "{", `{namespace="`+namespace+`",`, 1)
}

// An alert is silenced for one queue: it names the one that is late, and no other.
func TestOldestDueOldNamesItsQueue(t *testing.T) {
	t.Parallel()
	series := maps.Clone(healthy)
	series[`duetime_oldest_unfinished_due_age_seconds{instance="daemon-1",queue="mails"}`] = "0+STEPxCOUNT"
	var queues []string
	for _, g := range played(t, series, time.Hour).groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				queues = append(queues, r.Name()+" "+a.Labels.Get("queue"))
			}
		}
	}
	if d := cmp.Diff([]string{"DuetimeOldestDueOld mails"}, queues); d != "" {
		t.Errorf("fired (-want +got):\n%s", d)
	}
}

// fired gives what fires at the end of the series.
func fired(t *testing.T, series map[string]string, length time.Duration) []string {
	t.Helper()
	_, firing := played(t, series, length).alerts()
	return slices.Sorted(maps.Keys(firing))
}

// played plays the series, and evaluates the rules each half minute of the last hour.
func played(t *testing.T, series map[string]string, length time.Duration) *watch {
	t.Helper()
	step := 15 * time.Second
	if length > time.Hour {
		step = time.Minute
	}
	count := int(length / step)
	fill := strings.NewReplacer("COUNT", fmt.Sprint(count), "STEP", fmt.Sprint(step.Seconds()))
	var input strings.Builder
	fmt.Fprintf(&input, "load %v\n", step)
	for name, values := range series {
		if values != "" {
			fmt.Fprintf(&input, "  %s %s\n", in("shop", name), fill.Replace(values))
		}
	}
	for name, values := range healthy { // another deployment beside it, which must hide nothing
		fmt.Fprintf(&input, "  %s %s\n", in("other", name), fill.Replace(values))
	}
	loader, err := promqltest.NewLazyLoader(input.String(), promqltest.LazyLoaderOpts{})
	pipelinetest.Must(t, err)
	defer func() { _ = loader.Close() }()
	end := time.Unix(0, 0).Add(length)
	load := func(till time.Time) {
		loader.WithSamplesTill(till, func(err error) { pipelinetest.Must(t, err) })
	}
	for at := time.Unix(0, 0); at.Before(end); at = at.Add(30 * time.Minute) {
		load(at) // the storage takes no sample that is hours older than another
	}
	w := newWatch(t, loader.Storage(), 5*time.Minute)
	for at := end.Add(-time.Hour); !at.After(end); at = at.Add(30 * time.Second) {
		load(at)
		w.eval(t, at)
	}
	return w
}
