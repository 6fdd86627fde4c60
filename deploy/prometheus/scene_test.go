package prometheus_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // for rows that no service makes
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// scene is a whole deployment on servers of its own, scraped into a storage on which the rules are evaluated.
type scene struct {
	pipelinetest.Deployment
	*watch

	whole     *testing.T // processes live as long as it
	t         *testing.T // of the fault that is played
	storage   storage.Storage
	db        *sql.DB
	mysql     *pipelinetest.MySQLServer
	redis     *pipelinetest.RedisServer
	zookeeper *pipelinetest.ZooKeeperServer
	kafka     *pipelinetest.KafkaServer
	endpoint  string                      // where tasks of shop.order go; nobody listens there yet
	apps      map[string]pipelinetest.App // those that run
}

// fresh is how old a sample may be: Prometheus would know by its own means that a process is gone.
const fresh = 5 * time.Second

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		whole: t, t: t, mysql: pipelinetest.OwnMySQL(t), redis: pipelinetest.OwnRedis(t), zookeeper: pipelinetest.OwnZooKeeper(t),
		kafka: pipelinetest.OwnKafka(t), storage: teststorage.New(t), endpoint: pipelinetest.Address(t),
		apps: map[string]pipelinetest.App{},
	}
	t.Cleanup(func() { _ = s.storage.Close() })
	s.watch = newWatch(t, s.storage, fresh)
	s.Deployment = pipelinetest.Deployment{
		DSN: s.mysql.NewSchema(t), Redis: s.redis.Addr(), ZooKeeper: s.zookeeper.Addr(), Kafka: s.kafka.Addr(),
		Namespace: pipelinetest.Namespace(t), Config: filepath.Join(t.TempDir(), "duetime.yaml"),
		Rules: []string{
			"DUETIME_KAFKA__PARTITIONS=4", "DUETIME_GAME__MEAL=200ms", "DUETIME_DAEMON__WITNESS=true", "SHOP_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		},
	}
	pipelinetest.Must(t, os.WriteFile(s.Config, fmt.Appendf(nil, `
deliver:
  allow: [127.0.0.1]
  kinds: {shop.order: {url: 'http://%s/', queue: default, secrets_env: SHOP_SECRET}}
`, s.endpoint), 0o600))
	s.Migrate(t)
	var err error
	s.db, err = sql.Open("mysql", s.DSN)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.db.Close() })
	for _, name := range []string{"event", "daemon", "worker", "game"} {
		s.start(name)
	}
	return s
}

func (s *scene) start(name string) {
	s.t.Helper()
	s.apps[name] = s.Ready(s.whole, name)
}

func (s *scene) stop(name string) {
	s.t.Helper()
	s.apps[name].Stop(s.t)
	delete(s.apps, name)
}

// look scrapes all processes, evaluates the rules, and gives the alerts whose query is true.
func (s *scene) look() map[string]bool {
	s.t.Helper()
	appender := s.storage.Appender(s.t.Context())
	for name, app := range s.apps {
		families := app.Scrape(s.t)
		at := time.Now().UnixMilli()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				samples(f, m, func(metric string, extra []string, value float64) {
					set := append([]string{"__name__", metric, "instance", name}, extra...)
					for _, l := range m.GetLabel() {
						set = append(set, l.GetName(), l.GetValue())
					}
					_, err := appender.Append(0, labels.FromStrings(set...), at, value)
					pipelinetest.Must(s.t, err)
				})
			}
		}
	}
	pipelinetest.Must(s.t, appender.Commit())
	s.eval(s.t, time.Now())
	active, _ := s.alerts()
	return active
}

// samples returns those of one metric, as the text form has them.
func samples(f *dto.MetricFamily, m *dto.Metric, each func(name string, extra []string, value float64)) {
	name := f.GetName()
	switch f.GetType() {
	case dto.MetricType_HISTOGRAM:
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			le := "+Inf"
			if !math.IsInf(b.GetUpperBound(), 1) {
				le = fmt.Sprint(b.GetUpperBound())
			}
			each(name+"_bucket", []string{"le", le}, float64(b.GetCumulativeCount()))
		}
		each(name+"_sum", nil, h.GetSampleSum())
		each(name+"_count", nil, float64(h.GetSampleCount()))
	case dto.MetricType_SUMMARY:
		each(name+"_count", nil, float64(m.GetSummary().GetSampleCount()))
	default:
		each(name, nil, m.GetGauge().GetValue()+m.GetCounter().GetValue()+m.GetUntyped().GetValue())
	}
}

// await looks once a second, for three minutes at most, until the alert's query is as wanted; do, if any, comes before
// each look.
func (s *scene) await(alert string, active bool, do func()) {
	s.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		if do != nil {
			do()
		}
		now := s.look()
		if now[alert] == active {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s to be %v; true are %v", alert, active, now)
		}
	}
}

// feed makes a pet and feeds it: a task that is due at once.
func (s *scene) feed() {
	s.t.Helper()
	s.post(s.pet()+"/feed", "")
}

// pet makes a pet, and returns where it is.
func (s *scene) pet() (url string) {
	s.t.Helper()
	url = s.apps["game"].URL(s.t, "game") + "/v1/pets"
	var pet struct{ ID json.RawMessage }
	pipelinetest.Must(s.t, json.Unmarshal(s.post(url, `{"owner":"ann","name":"rex"}`), &pet))
	return url + "/" + strings.Trim(string(pet.ID), `"`)
}

func (s *scene) post(url, body string) []byte {
	s.t.Helper()
	status, text, err := call(s.t.Context(), url, body)
	pipelinetest.Must(s.t, err)
	if status >= 300 {
		s.t.Fatalf("POST %s answers %d: %s", url, status, text)
	}
	return text
}

func call(ctx context.Context, url, body string) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err = io.ReadAll(res.Body)
	return res.StatusCode, text, err
}

// insert writes so many rows that are due now, as a service in another language would.
func (s *scene) insert(n int, kind, payload string) {
	s.t.Helper()
	text := `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		SELECT UNHEX(REPLACE(UUID(), '-', '')), ?, CONCAT('o', seq), 'default', CRC32(CONCAT('o', seq)) MOD shards,
		       now, now, ?, now, now
		FROM duetime_layout, (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) t, ` + pipelinetest.Numbers(1, n)
	_, err := s.db.ExecContext(s.t.Context(), text, kind, payload)
	pipelinetest.Must(s.t, err)
}
