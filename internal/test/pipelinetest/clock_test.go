package pipelinetest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// testClock lets a server jump about and asks it for the time, which it has to tell by an answer to ordinary work.
func testClock(t *testing.T, s *pipelinetest.Server, now func(context.Context) (time.Time, error)) {
	t.Helper()
	clock := pipelinetest.NewClock(t)
	s.UseClock(clock)
	pipelinetest.Must(t, s.Restart())
	for _, jump := range []time.Duration{0, 30 * time.Second, -60 * time.Second, 30500 * time.Millisecond} {
		clock.Shift(jump)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			start := time.Now()
			got, err := now(ctx)
			cancel()
			if err != nil {
				t.Fatalf("at %s: %v", clock.Offset(), err)
			}
			first, last := start.Add(clock.Offset()), time.Now().Add(clock.Offset())
			if got.Before(first.Add(-time.Millisecond)) || got.After(last) {
				t.Errorf("at %s: got %s, want between %s and %s", clock.Offset(), got, first, last)
			}
		}
	}
	pipelinetest.Must(t, s.Restart())
	if _, err := now(t.Context()); err != nil {
		t.Errorf("started at %s: %v", clock.Offset(), err)
	}
}

func TestClockOfMySQL(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnMySQL(t)
	db := openDB(t, s.NewSchema(t))
	defer func() { _ = db.Close() }()
	_, err := db.ExecContext(t.Context(), "CREATE TABLE held (id INT PRIMARY KEY)")
	pipelinetest.Must(t, err)
	_, err = db.ExecContext(t.Context(), "INSERT INTO held VALUES (1)")
	pipelinetest.Must(t, err)
	testClock(t, s.Server, func(ctx context.Context) (time.Time, error) {
		lockWait(ctx, t, db)
		var ms int64
		err := db.QueryRowContext(ctx, "SELECT FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)").Scan(&ms)
		return time.UnixMilli(ms), err
	})
}

// lockWait fails the test unless a wait for a locked row ends after the second that it may last.
func lockWait(ctx context.Context, t *testing.T, db *sql.DB) {
	t.Helper()
	waiting, err := db.Conn(ctx)
	pipelinetest.Must(t, err)
	defer func() { _ = waiting.Close() }()
	_, err = waiting.ExecContext(ctx, "SET innodb_lock_wait_timeout = 1")
	pipelinetest.Must(t, err)
	holder, err := db.BeginTx(ctx, nil)
	pipelinetest.Must(t, err)
	defer func() { _ = holder.Rollback() }()
	const lock = "SELECT id FROM held WHERE id = 1 FOR UPDATE"
	pipelinetest.Must(t, holder.QueryRowContext(ctx, lock).Scan(new(int)))
	start := time.Now()
	err = waiting.QueryRowContext(ctx, lock).Scan(new(int))
	if took := time.Since(start); err == nil || took < 500*time.Millisecond || took > 20*time.Second {
		t.Errorf("a lock wait of 1s took %s and ended with %v", took, err)
	}
}

func TestClockOfRedis(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnRedis(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = client.Close() }()
	testClock(t, s.Server, func(ctx context.Context) (time.Time, error) {
		// Redis sleeps by monotonic time: a server that took it for shifted would not wake up to answer.
		start := time.Now()
		err := client.BLPop(ctx, time.Second, "empty").Err()
		if took := time.Since(start); !errors.Is(err, redis.Nil) || took < 500*time.Millisecond {
			t.Errorf("a wait of 1s took %s and ended with %v", took, err)
		}
		return client.Time(ctx).Result()
	})
}

func TestClockOfZooKeeper(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnZooKeeper(t)
	testClock(t, s.Server, func(ctx context.Context) (time.Time, error) {
		conn, _, err := zk.Connect([]string{s.Addr()}, 2*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
		if err != nil {
			return time.Time{}, err
		}
		defer conn.Close()
		path := "/" + pipelinetest.Namespace(t)
		for ctx.Err() == nil {
			if _, err = conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err == nil {
				break
			}
		}
		_, stat, err := conn.Exists(path)
		if err != nil {
			return time.Time{}, err
		}
		return time.UnixMilli(stat.Ctime), nil
	})
}

func TestClockOfKafka(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnKafka(t, "log.message.timestamp.type=LogAppendTime")
	testClock(t, s.Server, func(ctx context.Context) (time.Time, error) {
		topic := pipelinetest.Namespace(t)
		if err := writeAndRead(ctx, s.Addr(), topic); err != nil {
			return time.Time{}, err
		}
		transport := &kafka.Transport{}
		defer transport.CloseIdleConnections()
		response, err := (&kafka.Client{Addr: kafka.TCP(s.Addr()), Transport: transport}).Produce(ctx, &kafka.ProduceRequest{
			Topic: topic, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte("hint"))}),
		})
		if err != nil {
			return time.Time{}, err
		}
		return response.LogAppendTime, response.Error
	})
}
