package pipelinetest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestRedis(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnRedis(t)
	pong := func(ctx context.Context) error {
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
		defer func() { _ = client.Close() }()
		return client.Ping(ctx).Err()
	}
	testServer(t, s.Server, pong)
}

func TestMySQL(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnMySQL(t)
	dsn := s.NewSchema(t)
	exec := func(ctx context.Context, statement string) error {
		db := openDB(t, dsn)
		defer func() { _ = db.Close() }()
		_, err := db.ExecContext(ctx, statement)
		return err
	}
	pipelinetest.Must(t, exec(t.Context(), "CREATE TABLE kept (id INT PRIMARY KEY)"))
	read := func(ctx context.Context) error { return exec(ctx, "SELECT id FROM kept") }
	for _, stop := range []func() error{s.Stop, s.Kill} {
		pipelinetest.Must(t, stop())
		pipelinetest.Must(t, s.Start())
		if err := read(t.Context()); err != nil {
			t.Errorf("a table after stop and start: %v", err)
		}
	}
	testServer(t, s.Server, func(ctx context.Context) error {
		return exec(ctx, "DO 1")
	}, "schema gone")
	if err := read(t.Context()); err == nil {
		t.Error("a table outlived Wipe")
	}
}

func TestZooKeeper(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnZooKeeper(t)
	testServer(t, s.Server, func(ctx context.Context) error {
		conn, _, err := zk.Connect([]string{s.Addr()}, 2*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
		if err != nil {
			return err
		}
		defer conn.Close()
		for conn.State() != zk.StateHasSession {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(time.Millisecond)
		}
		_, _, err = conn.Exists("/")
		return err
	})
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func TestKafka(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnKafka(t)
	testServer(t, s.Server, func(ctx context.Context) error { return roundTrip(ctx, t, s.Addr()) })
}

// roundTrip makes a topic, writes a message and reads it in a consumer group.
func roundTrip(ctx context.Context, t *testing.T, addr string) error {
	t.Helper()
	return writeAndRead(ctx, addr, pipelinetest.Namespace(t))
}

func writeAndRead(ctx context.Context, addr, topic string) error {
	transport := &kafka.Transport{} // ctx alone limits what a slow machine may take
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: transport}
	if _, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}},
	}); err != nil {
		return err
	}
	w := &kafka.Writer{
		Addr: kafka.TCP(addr), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond, Transport: transport,
	}
	defer func() { _ = w.Close() }()
	if err := w.WriteMessages(ctx, kafka.Message{Value: []byte("hint")}); err != nil {
		return err
	}
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{addr}, Topic: topic, GroupID: topic, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond,
	})
	defer func() { _ = r.Close() }()
	got, err := r.FetchMessage(ctx)
	if err == nil && string(got.Value) != "hint" {
		return errors.New("read " + string(got.Value))
	}
	return err
}

// testServer kills, stops, freezes and wipes a server and asks it after each. A non-empty wiped says that the answer
// after Wipe may be an error.
func testServer(t *testing.T, s *pipelinetest.Server, ask func(context.Context) error, wiped ...string) {
	t.Helper()
	addr := s.Addr()
	answers := func(after string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := ask(ctx); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
	}
	silent := func(after string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := ask(ctx); err == nil {
			t.Errorf("after %s: it answers", after)
		}
	}
	answers("its start")
	pipelinetest.Must(t, s.Kill())
	silent("Kill")
	if s.Running() {
		t.Error("it runs after Kill")
	}
	pipelinetest.Must(t, s.Start())
	answers("Start")
	pipelinetest.Must(t, s.Freeze())
	silent("Freeze")
	pipelinetest.Must(t, s.Thaw())
	answers("Thaw")
	pipelinetest.Must(t, s.Restart())
	answers("Restart")
	pipelinetest.Must(t, s.Wipe())
	if len(wiped) == 0 {
		answers("Wipe")
	}
	if got := s.Addr(); got != addr {
		t.Errorf("got address %s after all this, want %s", got, addr)
	}
}

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	pipelinetest.Must(t, err)
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	pipelinetest.Must(t, err)
	return sql.OpenDB(connector)
}
