package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/trust"
)

// lessons kill workers whose pid files are in a folder, and flush Redis.
type lessons struct {
	folder string        // empty: no lessons
	redis  *redis.Client // nil: not one server
}

func newLessons(folder string, cfg config.Config) (lessons, error) {
	if folder == "" || cfg.Redis.Mode != "standalone" {
		return lessons{folder: folder}, nil
	}
	password, err := cfg.Redis.Secret()
	if err != nil {
		return lessons{}, err
	}
	var secure *tls.Config
	if secure, err = trust.Client("redis.tls", trust.Files(cfg.Redis.TLS)); err != nil {
		return lessons{}, err
	}
	return lessons{folder, redis.NewClient(&redis.Options{
		Addr: cfg.Redis.Addrs[0], Username: cfg.Redis.Username, Password: string(password), TLSConfig: secure,
	})}, nil
}

func (l lessons) offered() (offered pet.Lessons) {
	if l.folder != "" {
		offered.Workers, offered.Kill = l.workers, l.kill
	}
	if l.redis != nil {
		offered.Flush = l.flush
	}
	return offered
}

func (l lessons) close(context.Context) error {
	if l.redis == nil {
		return nil
	}
	return l.redis.Close()
}

// workers lists the pid files worker-*.pid by their names.
func (l lessons) workers() []pet.Worker {
	files, _ := filepath.Glob(filepath.Join(l.folder, "worker-*.pid")) // the pattern is sound
	slices.Sort(files)
	all := make([]pet.Worker, len(files))
	for i, file := range files {
		all[i] = pet.Worker{Name: strings.TrimSuffix(filepath.Base(file), ".pid"), Alive: aliveBy(file) != 0}
	}
	return all
}

func (l lessons) kill(context.Context) (string, error) {
	for _, w := range l.workers() {
		pid := aliveBy(filepath.Join(l.folder, w.Name+".pid"))
		if pid == 0 {
			continue
		}
		process, err := os.FindProcess(pid)
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			return "", fmt.Errorf("kill %s: %w", w.Name, err)
		}
		return w.Name, nil
	}
	return "", nil
}

// aliveBy returns the process of a pid file, which has the process's id and start time; 0 if it is over.
func aliveBy(file string) int {
	noted, _ := os.ReadFile(file) //nolint:gosec // the configuration names its folder
	id, began, _ := strings.Cut(strings.TrimSpace(string(noted)), " ")
	pid, err := strconv.Atoi(id)
	if err != nil || pid < 1 {
		return 0
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // none: it is over
	_, stats, _ := strings.Cut(string(stat), ") ")
	// The state comes first, and 19 fields after it the start time, which tells the process from a later one of its id.
	if fields := strings.Fields(stats); len(fields) < 20 || fields[0] == "Z" || fields[19] != began {
		return 0
	}
	return pid
}

// flush empties Redis, and returns how many keys it had.
func (l lessons) flush(ctx context.Context) (int64, error) {
	n, err := l.redis.DBSize(ctx).Result()
	if err != nil {
		return 0, fmt.Errorf("count the keys: %w", err)
	}
	if err := l.redis.FlushDB(ctx).Err(); err != nil {
		return 0, fmt.Errorf("flush: %w", err)
	}
	return n, nil
}
