package prometheus_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// faultsOfProcesses makes the faults that a process shows, and not a server that is away.
func faultsOfProcesses(t *testing.T, s *scene, redisClient *redis.Client) {
	t.Run("DuetimeAPIAway", func(t *testing.T) {
		s.t = t
		s.start("api")
		s.await("DuetimeAPIAway", false, nil)
		s.stop("api")
		s.await("DuetimeAPIAway", true, nil)
		s.start("api")
		s.await("DuetimeAPIAway", false, nil)
	})
	t.Run("DuetimeWorkersAway", func(t *testing.T) {
		s.t = t
		s.apps["worker 2"] = s.Ready(s.whole, "worker")
		for minute := time.Now().Truncate(time.Minute); !time.Now().Truncate(time.Minute).After(minute); time.Sleep(time.Second) {
			s.look() // the query counts by the minute
		}
		s.await("DuetimeWorkersAway", false, nil)
		s.stop("worker 2")
		s.await("DuetimeWorkersAway", true, nil)
		s.apps["worker 2"] = s.Ready(s.whole, "worker")
		s.await("DuetimeWorkersAway", false, nil)
	})
	t.Run("DuetimeProcessSilent", func(t *testing.T) {
		s.t = t
		pipelinetest.Must(t, s.apps["worker 2"].Kill())
		delete(s.apps, "worker 2")
		s.await("DuetimeProcessSilent", true, nil)
		s.apps["worker 2"] = s.Ready(s.whole, "worker")
		s.await("DuetimeProcessSilent", false, nil)
	})
	t.Run("DuetimeProcessStuck", func(t *testing.T) {
		s.t = t
		// No handler of ours outlasts its context: the row is as a worker writes it whose handler does.
		report := func() {
			_, err := s.db.ExecContext(t.Context(), `REPLACE INTO duetime_processes (id, role, host, version, started_at, seen_at, detail)
				SELECT 'stuck', 'worker', 'elsewhere', '1', now, now, '{"pid": 1, "calls": [{"kind": "shop.order", "tasks": 1, "since_ms": 1, "limit_ms": 1000}]}'
				FROM (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 AS now) t`)
			pipelinetest.Must(t, err)
		}
		s.await("DuetimeProcessStuck", true, report)
		_, err := s.db.ExecContext(t.Context(), "DELETE FROM duetime_processes WHERE id = 'stuck'")
		pipelinetest.Must(t, err)
		s.await("DuetimeProcessStuck", false, nil)
	})
	t.Run("DuetimeMemoryHigh", func(t *testing.T) {
		s.t = t
		s.apps["small worker"] = s.Ready(s.whole, "worker", "GOMEMLIMIT=20MiB")
		s.await("DuetimeMemoryHigh", true, nil)
		s.stop("small worker")
		s.await("DuetimeMemoryHigh", false, nil)
	})
	t.Run("DuetimeTwoLeaders", func(t *testing.T) {
		s.t = t
		copied := s.Deployment
		copied.ZooKeeper = pipelinetest.OwnZooKeeper(t).Addr()
		s.apps["event 2"] = copied.Ready(s.whole, "event")
		s.await("DuetimeTwoLeaders", true, nil)
		s.stop("event 2")
		s.await("DuetimeTwoLeaders", false, nil)
	})
	t.Run("DuetimeClockGap, DuetimeTransactionOld", func(t *testing.T) {
		s.t = t
		clock := pipelinetest.NewClock(t)
		pipelinetest.Must(t, s.mysql.Stop())
		s.mysql.UseClock(clock)
		pipelinetest.Must(t, s.mysql.Start())
		clock.Shift(time.Minute)
		s.await("DuetimeClockGap", true, nil)
		clock.Shift(-time.Minute)
		s.await("DuetimeClockGap", false, nil)
		reader, err := s.db.BeginTx(t.Context(), nil)
		pipelinetest.Must(t, err)
		defer func() { _ = reader.Rollback() }()
		_, err = reader.ExecContext(t.Context(), "DELETE FROM pets WHERE id = 0")
		pipelinetest.Must(t, err)
		s.await("DuetimeTransactionOld", false, nil)
		clock.Shift(61 * time.Minute)
		s.await("DuetimeTransactionOld", true, nil)
		pipelinetest.Must(t, reader.Rollback())
		s.await("DuetimeTransactionOld", false, nil)
		clock.Shift(-61 * time.Minute)
		s.await("DuetimeClockGap", false, nil)
	})
	t.Run("DuetimePoolWaits", func(t *testing.T) {
		s.t = t
		s.apps["small game"] = s.Ready(s.whole, "game", "DUETIME_MYSQL__MAX_OPEN=4")
		url := s.apps["small game"].URL(t, "game") + "/v1/pets"
		ctx, stop := context.WithCancel(t.Context())
		lock, err := s.db.Conn(t.Context())
		pipelinetest.Must(t, err)
		defer func() { _ = lock.Close() }()
		_, err = lock.ExecContext(t.Context(), "LOCK TABLES pets WRITE")
		pipelinetest.Must(t, err)
		var callers sync.WaitGroup
		defer func() { stop(); callers.Wait() }()
		for range 100 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, _, _ = call(ctx, url, `{"owner":"ann","name":"rex"}`)
				}
			})
		}
		s.await("DuetimePoolWaits", true, nil)
		_, err = lock.ExecContext(t.Context(), "UNLOCK TABLES")
		pipelinetest.Must(t, err)
	})
	t.Run("DuetimeMySQLFull", func(t *testing.T) {
		s.t = t
		pet := s.pet()
		// The trigger answers as a server without space does.
		_, err := s.db.ExecContext(t.Context(),
			"CREATE TRIGGER full BEFORE INSERT ON duetime_tasks FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114")
		pipelinetest.Must(t, err)
		s.await("DuetimeMySQLFull", false, nil)
		s.await("DuetimeMySQLFull", true, func() { _, _, _ = call(t.Context(), pet+"/feed", "") })
		_, err = s.db.ExecContext(t.Context(), "DROP TRIGGER full")
		pipelinetest.Must(t, err)
	})
	t.Run("DuetimeIndexPutsFail", func(t *testing.T) {
		s.t = t
		s.await("DuetimeIndexPutsFail", false, nil)
		pipelinetest.Must(t, redisClient.ConfigSet(t.Context(), "maxmemory", "1").Err())
		s.await("DuetimeIndexPutsFail", true, s.feed)
		pipelinetest.Must(t, redisClient.ConfigSet(t.Context(), "maxmemory", "0").Err())
	})
}
