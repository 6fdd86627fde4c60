package pipelinetest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// testFullDisk writes until the full disk stops it, makes room, starts the server again if it stopped, and counts what
// was acknowledged. Then the server is to start on a full disk, which it may refuse, and once more when there is room.
func testFullDisk(
	t *testing.T, disk *pipelinetest.Disk, s *pipelinetest.Server,
	write func(context.Context) error, count func(context.Context) (int, error),
) {
	t.Helper()
	acknowledged := 0
	put := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := write(ctx)
		if err == nil {
			acknowledged++
		}
		return err
	}
	writes := func(when string) {
		t.Helper()
		pipelinetest.Await(t, "a write "+when, func() bool {
			pipelinetest.Must(t, s.Start()) // it may take its time to stop because of the disk
			return put() == nil
		})
	}
	writes("at first")
	disk.Fill()
	var err error
	pipelinetest.Await(t, "a write to fail on the full disk", func() bool { err = put(); return err != nil })
	t.Logf("after %d on the full disk: %v", acknowledged, err)
	disk.Free()
	writes("with room again")
	if got, err := count(t.Context()); err != nil || got < acknowledged {
		t.Errorf("got %d, %v, want the %d that were acknowledged", got, err, acknowledged)
	}

	pipelinetest.Must(t, s.Stop())
	disk.Fill()
	if err := s.Start(); err != nil {
		t.Logf("%v", err)
		if s.Running() {
			t.Error("it runs after a start that failed")
		}
	}
	disk.Free()
	writes("after a start without room")
}

func TestFullDiskUnderMySQL(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	disk := pipelinetest.SmallDisk(t, 192<<20)
	s, err := pipelinetest.StartMySQL(disk.Path())
	pipelinetest.Must(t, err)
	pipelinetest.Own(t, s.Server)
	db := openDB(t, s.NewSchema(t))
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE kept (id INT PRIMARY KEY AUTO_INCREMENT, text MEDIUMTEXT)")
	pipelinetest.Must(t, err)
	testFullDisk(t, disk, s.Server, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "INSERT INTO kept (text) VALUES (?)", strings.Repeat("x", 100_000))
		return err
	}, func(ctx context.Context) (n int, err error) {
		err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM kept").Scan(&n)
		return n, err
	})
}

func TestFullDiskUnderRedis(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	disk := pipelinetest.SmallDisk(t, 4<<20)
	s, err := pipelinetest.StartRedis(disk.Path(), "--appendonly", "yes", "--appendfsync", "everysec")
	pipelinetest.Must(t, err)
	pipelinetest.Own(t, s.Server)
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	testFullDisk(t, disk, s.Server, func(ctx context.Context) error {
		return client.RPush(ctx, "kept", strings.Repeat("x", 1000)).Err()
	}, func(ctx context.Context) (int, error) {
		n, err := client.LLen(ctx, "kept").Result()
		return int(n), err
	})
}

func TestFullDiskUnderKafka(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	disk := pipelinetest.SmallDisk(t, 16<<20)
	s, err := pipelinetest.StartKafka(disk.Path())
	pipelinetest.Must(t, err)
	pipelinetest.Own(t, s.Server)
	pipelinetest.Must(t, writeAndRead(t.Context(), s.Addr(), "kept"))
	transport := &kafka.Transport{DialTimeout: time.Second}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{
		Addr: kafka.TCP(s.Addr()), Topic: "kept", RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond,
		MaxAttempts: 1, Transport: transport,
	}
	defer func() { _ = w.Close() }()
	testFullDisk(t, disk, s.Server, func(ctx context.Context) error {
		return w.WriteMessages(ctx, kafka.Message{Value: make([]byte, 10_000)})
	}, func(ctx context.Context) (int, error) {
		conn, err := kafka.DialLeader(ctx, "tcp", s.Addr(), "kept", 0)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close() }()
		first, last, err := conn.ReadOffsets()
		return int(last - first), err
	})
}
