package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// shown are samples, by the beginning of their line, that a process shows once it has worked, above 0.
var shown = map[string][]string{
	"event": {
		"duetime_leader ", `duetime_epoch{name="event"} `, `duetime_leader_transitions_total{name="event"} `,
		"duetime_zookeeper_connected ", "duetime_hints_published_total ", "duetime_dispatch_lag_seconds_count ",
		`duetime_go_sql_open_connections{db_name="client"} `, "duetime_publish_duration_seconds_count ", `duetime_loop_last_success_timestamp_seconds{loop="dispatch"} `,
		"duetime_build_info{",
	},
	"worker": {
		`duetime_tasks_settled_total{kind="pet.meal_finished",result="done"} `, `duetime_fire_lag_seconds_count{kind="pet.meal_finished"} `,
		"duetime_settle_duration_seconds_count ",
		"duetime_worker_last_success_timestamp_seconds ", "duetime_build_info{",
		`duetime_go_sql_max_open_connections{db_name="client"} `, `duetime_go_sql_max_open_connections{db_name="worker"} `,
	},
	"daemon": {
		"duetime_daemon_leader ", `duetime_epoch{name="daemon"} `, `duetime_leader_transitions_total{name="daemon"} `,
		"duetime_zookeeper_connected ", `duetime_server_up{server="mysql"} `, `duetime_server_up{server="redis"} `,
		`duetime_server_up{server="kafka"} `, `duetime_tasks{state="pending"} `, "duetime_tasks_counted_timestamp_seconds ",
		"duetime_index_entries{", `duetime_loop_last_success_timestamp_seconds{loop="lookahead"} `,
		`duetime_loop_last_success_timestamp_seconds{loop="overdue"} `, `duetime_loop_last_success_timestamp_seconds{loop="changed"} `,
		`duetime_loop_last_success_timestamp_seconds{loop="rebuild"} `, `duetime_loop_last_success_timestamp_seconds{loop="audit rows"} `,
		`duetime_loop_last_success_timestamp_seconds{loop="audit index"} `, `duetime_loop_last_success_timestamp_seconds{loop="purge"} `,
		"duetime_build_info{",
	},
	"game": {`duetime_index_puts_total{result="ok"} `, "duetime_build_info{"},
}

// there are samples that a healthy process shows at 0.
var there = map[string][]string{
	"event":  {`duetime_oldest_due_age_seconds{shard="15"} `, "duetime_fenced_total ", "duetime_hints_passed_over_total "},
	"worker": {`duetime_tasks_settled_total{kind="pet.meal_finished",result="dead"} `, "duetime_worker_pauses_total "},
	"daemon": {
		`duetime_oldest_unfinished_due_age_seconds{queue="default"} `, `duetime_tasks{state="dead"} `, `duetime_consumer_lag_hints{queue="default"} `,
		"duetime_redis_evicted_keys_total ", "duetime_tasks_archived_total ", "duetime_tasks_purged_total ",
	},
	"game": {`duetime_index_puts_total{result="failed"} `, `duetime_compensations_total{result="dropped"} `},
}

// labels are all that samples of ours may have: none that grows with players or tasks.
var labels = []string{
	"kind", "result", "reason", "direction", "shard", "state", "queue", "server", "loop", "name", "what",
	"process", "version", "revision", "goversion", "tz", "namespace", "db_name", "verb", "answer", "fault",
}

// TestMetricsOfRealProcesses plays a little and reads what each process shows then.
func TestMetricsOfRealProcesses(t *testing.T) {
	t.Parallel()
	p := pipelinetest.SharedDeployment(t)
	procs := map[string]pipelinetest.App{}
	for _, name := range commands {
		procs[name] = p.Ready(t, name, "DUETIME_GAME__MEAL=500ms")
	}
	owner := "player-" + pipelinetest.Namespace(t)
	meal := play(t, procs["game"].URL(t, "game"), owner)
	play(t, p.Ready(t, "game", "DUETIME_GAME__MEAL=1h").URL(t, "game"), owner) // a meal that stays pending
	pipelinetest.Await(t, "a meal that ended within a second of its time", func() bool {
		ended := func() float64 {
			return procs["worker"].Metric(t, `duetime_fire_lag_seconds_count{kind="pet.meal_finished"} `)
		}
		before := ended()
		play(t, procs["game"].URL(t, "game"), owner)
		pipelinetest.Await(t, "its end", func() bool { return ended() > before })
		return procs["worker"].Metric(t, `duetime_fire_lag_seconds_bucket{kind="pet.meal_finished",le="1"} `) > 0
	})

	for _, name := range commands {
		for _, line := range shown[name] {
			pipelinetest.Await(t, name+" to show "+line, func() bool { return procs[name].Metric(t, line) > 0 })
		}
		text := procs[name].Metrics(t)
		for _, line := range there[name] {
			if !strings.Contains(text, "\n"+line) {
				t.Errorf("%s doesn't show %s", name, line)
			}
		}
		for _, secret := range []string{owner, meal} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s, which grows with the players", name, secret)
			}
		}
		wantLabels(t, procs[name], p.Namespace)
	}
}

// wantLabels wants our metrics to have our prefix, a help, the deployment's namespace, and labels of the list.
func wantLabels(t *testing.T, p pipelinetest.App, namespace string) {
	t.Helper()
	for name, family := range p.Scrape(t) {
		ours := strings.HasPrefix(name, "duetime_")
		if !ours && !slices.ContainsFunc([]string{"go_", "process_", "promhttp_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("%s shows %s, which has no prefix of ours", p.Name, name)
		}
		if family.GetHelp() == "" {
			t.Errorf("%s shows %s without a help", p.Name, name)
		}
		for _, m := range family.GetMetric() {
			if ours && !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
				return l.GetName() == "namespace" && l.GetValue() == namespace
			}) {
				t.Errorf("%s shows %s without the namespace %s: %v", p.Name, name, namespace, m.GetLabel())
			}
			for _, l := range m.GetLabel() {
				if ours && !slices.Contains(labels, l.GetName()) {
					t.Errorf("%s shows %s with the label %s", p.Name, name, l.GetName())
				}
			}
		}
	}
}

// play makes a pet of the owner and feeds it; it returns the task's id.
func play(t *testing.T, url, owner string) string {
	t.Helper()
	var pet struct {
		ID   json.RawMessage
		Meal struct {
			ID string `json:"task_id"`
		}
	}
	pipelinetest.Must(t, json.Unmarshal([]byte(call(t, http.MethodPost, url+"/v1/pets", `{"owner":"`+owner+`","name":"rex"}`, http.StatusCreated)), &pet))
	fed := call(t, http.MethodPost, url+"/v1/pets/"+strings.Trim(string(pet.ID), `"`)+"/feed", "", http.StatusOK)
	pipelinetest.Must(t, json.Unmarshal([]byte(fed), &pet))
	if pet.Meal.ID == "" {
		t.Fatalf("the meal has no task: %s", fed)
	}
	return pet.Meal.ID
}

func answer(t *testing.T, req *http.Request, want int) []byte {
	t.Helper()
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	if res.StatusCode != want {
		t.Fatalf("%s %s answers %d, want %d: %s", req.Method, req.URL, res.StatusCode, want, text)
	}
	return text
}
