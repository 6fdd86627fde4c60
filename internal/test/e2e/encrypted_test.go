package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// vault is a deployment whose servers keep their files where the test finds them.
type vault struct {
	pipelinetest.Deployment

	files   string
	keys    string // the file of keys
	service *service
	servers []*pipelinetest.Server
	seen    sync.Map // what a handler was given: secret → times
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{files: t.TempDir(), keys: filepath.Join(t.TempDir(), "keys")}
	folder := func(name string) string {
		dir := filepath.Join(v.files, name)
		pipelinetest.Must(t, os.Mkdir(dir, 0o700))
		return dir
	}
	mysql, err := pipelinetest.StartMySQL(folder("mysql"))
	pipelinetest.Must(t, err)
	redis, err := pipelinetest.StartRedis(folder("redis"), "--appendonly", "yes")
	pipelinetest.Must(t, err)
	kafka, err := pipelinetest.StartKafka(folder("kafka"))
	pipelinetest.Must(t, err)
	v.servers = []*pipelinetest.Server{mysql.Server, redis.Server, kafka.Server}
	for _, s := range v.servers {
		pipelinetest.Own(t, s)
	}
	v.Deployment = pipelinetest.Deployment{
		DSN: mysql.NewSchema(t), Redis: redis.Addr(), Namespace: pipelinetest.Namespace(t), Kafka: kafka.Addr(),
		ZooKeeper: pipelinetest.ZooKeeper(t).Addr(), Rules: []string{"DUETIME_KAFKA__PARTITIONS=2", "DUETIME_LOG__LEVEL=debug"},
	}
	v.Migrate(t)
	v.service = newService(t, v.Deployment)
	return v
}

// rotate writes the file of keys anew; the first one encrypts.
func (v *vault) rotate(t *testing.T, ids ...string) {
	t.Helper()
	var text strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&text, id, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 16))))
	}
	pipelinetest.Must(t, os.WriteFile(v.keys+".new", []byte(text.String()), 0o600))
	pipelinetest.Must(t, os.Rename(v.keys+".new", v.keys))
}

// find returns the files of a server's folder in which one of the texts stands.
func (v *vault) find(t *testing.T, folder string, texts ...string) (found []string, size int64) {
	t.Helper()
	pipelinetest.Must(t, filepath.WalkDir(filepath.Join(v.files, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		size += int64(len(content))
		if slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(content, []byte(text)) }) {
			found = append(found, path)
		}
		return err
	}))
	return found, size
}

// TestEncryptedPayloads keeps a thousand secrets, of which the keys change meanwhile: handlers get each of them once, a key that is
// missing is a failed attempt until it is back, and no file of a server and no line of a log has one of them.
func TestEncryptedPayloads(t *testing.T) {
	t.Parallel()
	const n = 1000
	v := newVault(t)
	v.rotate(t, "k1")
	keys, err := encrypt.File(v.keys)
	pipelinetest.Must(t, err)
	type secret struct{ Text string }
	kind := task.NewKind[secret]("e2e.secret", encrypt.Payloads(keys), task.Retry(task.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond}),
		task.MaxAttempts(1000))
	plain := task.NewKind[secret]("e2e.plain")
	text := func(i int) string { return fmt.Sprintf("nobody-reads-%d-of-these", i) }
	schedule := func(from, to int, at time.Time) {
		var specs []task.Spec
		for i := from; i < to; i++ {
			specs = append(specs, kind.New(fmt.Sprint("owner", i%7), secret{text(i)}, task.At(at)))
		}
		pipelinetest.Must(t, v.service.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.ScheduleMany(t.Context(), specs)
			return err
		}))
	}
	procs := []pipelinetest.App{v.Ready(t, "event"), v.Ready(t, "daemon")}
	due := time.Now().Add(2 * time.Second)
	schedule(0, n/4, due)
	v.rotate(t, "k2", "k1")
	pipelinetest.Await(t, "the key k2 to encrypt", func() bool { k, err := keys(""); return err == nil && k.ID == "k2" })
	schedule(n/4, n/2, due)
	schedule(n/2, n-1, due.Add(10*time.Hour)) // remain
	_, err = v.service.Schedule(t.Context(), plain.New("ada", secret{"anybody-reads-this"}, task.In(time.Hour)))
	pipelinetest.Must(t, err)

	mux := worker.NewMux()
	worker.Handle(mux, kind, func(_ context.Context, _ *worker.Tx, task worker.Task[secret]) error {
		times, _ := v.seen.LoadOrStore(task.Payload.Text, 0)
		v.seen.Store(task.Payload.Text, times.(int)+1)
		return nil
	})
	v.rotate(t, "k2")
	pipelinetest.Await(t, "the key k1 to be away", func() bool { _, err := keys("k1"); return err != nil })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.service.Work(ctx, mux) }()
	const done, missing = "SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'e2e.secret' AND state = 1",
		`SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND attempt > 0 AND last_error LIKE '%key "k1", which encrypted the payload%'`
	pipelinetest.Await(t, "attempts without their key", func() bool {
		return v.service.number(t, missing) == n/4 && v.service.number(t, done) == n/4
	})
	v.rotate(t, "k2", "k1")
	pipelinetest.Await(t, "all that are due", func() bool { return v.service.number(t, done) == n/2 })
	for i := range n / 2 {
		if times, _ := v.seen.Load(text(i)); times != 1 {
			t.Errorf("%s was given to the handler %v times", text(i), times)
		}
	}
	stop()
	pipelinetest.Must(t, <-ended)
	v.wantNoneInClear(t, procs)
}

// wantNoneInClear stops the servers, so that all they know is in their files.
func (v *vault) wantNoneInClear(t *testing.T, procs []pipelinetest.App) {
	t.Helper()
	for _, p := range procs {
		p.Stop(t)
		if out := strings.Join(p.Lines(), "\n"); strings.Contains(out, "nobody-reads") || out == "" {
			t.Errorf("%s logs %s", p.Name, out)
		}
	}
	if v.service.says("nobody-reads") > 0 {
		t.Error("the service logs a payload")
	}
	pipelinetest.Must(t, v.service.Close(context.WithoutCancel(t.Context())))
	for _, s := range v.servers {
		pipelinetest.Must(t, s.Stop())
	}
	for folder, known := range map[string]string{"mysql": "anybody-reads-this", "redis": v.Namespace, "kafka": v.Namespace} {
		if found, size := v.find(t, folder, known); len(found) == 0 {
			t.Errorf("no file of %s, %d bytes in all, has %s", folder, size, known)
		}
		if found, _ := v.find(t, folder, "nobody-reads"); len(found) > 0 {
			t.Errorf("%s has a payload in clear: %v", folder, found)
		}
	}
}
