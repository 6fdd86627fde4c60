package chaos_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// diskSize is room for what a server needs and for what a row's game leaves there.
const diskSize = 384 << 20

// disks are the small disks of a world, each under one server.
type disks struct{ mysql, redis, kafka *pipelinetest.Disk }

// disksRow fills the disk of one server after the other. Redis keeps an append-only file here.
func disksRow() entry {
	var under disks
	return entry{
		n: 20, fault: "disk full under MySQL, Redis's append-only file, Kafka",
		setup: setup{servers: func(t *testing.T, w *world) {
			t.Helper()
			under = startOnDisks(t, w)
		}},
		run: func(t *testing.T, d *drill) { t.Helper(); disksFull(t, d, under) },
	}
}

func startOnDisks(t *testing.T, w *world) disks {
	t.Helper()
	under := disks{pipelinetest.SmallDisk(t, diskSize), pipelinetest.SmallDisk(t, diskSize), pipelinetest.SmallDisk(t, diskSize)}
	var err error
	// By itself the server takes 64 MB at once, and so finds a disk full that is not.
	w.mysql, err = pipelinetest.StartMySQL(under.mysql.Path(), "--innodb-autoextend-increment=1")
	pipelinetest.Must(t, err)
	pipelinetest.Own(t, w.mysql.Server)
	w.redis, err = pipelinetest.StartRedis(under.redis.Path(), "--appendonly", "yes", "--appendfsync", "everysec")
	pipelinetest.Must(t, err)
	pipelinetest.Own(t, w.redis.Server)
	w.kafka, err = pipelinetest.StartKafka(under.kafka.Path(), kafkaLine)
	pipelinetest.Must(t, err)
	pipelinetest.Own(t, w.kafka.Server)
	return under
}

func disksFull(t *testing.T, d *drill, under disks) {
	t.Helper()
	d.fillUp(t, "MySQL", under.mysql, d.mysql.Server, func() bool { return d.game.Says("is full") > 0 })
	d.fillUp(t, "Redis", under.redis, d.redis.Server, func() bool {
		var info string
		d.inRedis(t, func(r *redis.Client) (err error) {
			info, err = r.Info(t.Context(), "persistence").Result()
			return err
		})
		return strings.Contains(info, "aof_last_write_status:err")
	})
	d.fillUp(t, "Kafka", under.kafka, d.kafka.Server, func() bool {
		text, err := os.ReadFile(d.kafka.Log())
		pipelinetest.Must(t, err)
		return strings.Contains(string(text), "No space left on device")
	})
}

// fillUp leaves a server without room for 5 s from when it feels that, and starts it again if it stopped.
func (d *drill) fillUp(t *testing.T, name string, disk *pipelinetest.Disk, s *pipelinetest.Server, felt func() bool) {
	t.Helper()
	from := time.Now()
	stopped := false
	d.fault(t, name, 15*time.Second, func() {
		disk.Fill()
		pipelinetest.Await(t, name+" to feel the full disk", func() bool { return !s.Running() || felt() })
		time.Sleep(5 * time.Second)
		stopped = !s.Running()
		disk.Free()
		pipelinetest.Must(t, s.Start())
		if s == d.mysql.Server {
			d.rebuildDamaged(t, s)
		}
	})
	answers, slowest := d.crowd.answers(from, time.Now())
	d.note(t, "%s stopped by itself: %v; answers of the API by status %v, the slowest after %v", name, stopped, answers, slowest)
}

// rebuildDamaged does what MariaDB's manual says to do about an index that the server itself has damaged: now and then
// 10.11 leaves entries in one that its rows contradict, when it takes back a statement for which there was no room. The
// rows are whole, and say so here; nothing of ours could mend the index.
func (d *drill) rebuildDamaged(t *testing.T, s *pipelinetest.Server) {
	t.Helper()
	for _, table := range []string{"duetime_tasks", "pets", "pet_journal", "pet_requests"} {
		damage := d.check(t, s, table)
		if len(damage) == 0 {
			continue
		}
		d.note(t, "MariaDB damaged an index by itself, and it was rebuilt: %s", strings.Join(damage, ", "))
		d.exec(t, "ALTER TABLE "+table+" FORCE")
		if left := d.check(t, s, table); len(left) > 0 {
			t.Errorf("%s is damaged beyond its indexes: %s", table, strings.Join(left, ", "))
		}
	}
}

// check lists what CHECK TABLE finds wrong. The server may be on its way to an end when there is room again: it gives up where
// it can't even take a statement back.
func (w *world) check(t *testing.T, s *pipelinetest.Server, table string) (damage []string) {
	t.Helper()
	pipelinetest.Await(t, table+" to be checked", func() bool {
		if !s.Running() {
			pipelinetest.Must(t, s.Start())
		}
		var found []struct {
			Table   string `db:"Table"`
			Op      string `db:"Op"`
			MsgType string `db:"Msg_type"`
			MsgText string `db:"Msg_text"`
		}
		if err := sqlx.NewDb(w.db, "mysql").SelectContext(t.Context(), &found, "CHECK TABLE "+table); err != nil {
			return false
		}
		damage = nil
		for _, f := range found {
			if f.MsgText != "OK" {
				damage = append(damage, f.MsgText)
			}
		}
		return true
	})
	return damage
}
