// Command driver runs one system in a process of its own, so that it can be killed. It reads requests from standard
// input, one JSON object a line, and answers each with one line, as package protocol lists them. It is configured by the
// environment variable BENCH, an Env in JSON, and its first line says that the system is open.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/duetime/duetime/bench/queue"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var env queue.Env
	if err := json.Unmarshal([]byte(os.Getenv("BENCH")), &env); err != nil {
		return fmt.Errorf("read BENCH: %w", err)
	}
	stop, err := profile(env)
	if err != nil {
		return err
	}
	defer stop()
	open, ok := systems[env.System]
	if !ok {
		return fmt.Errorf("unknown system %q", env.System)
	}
	q, err := open(ctx, env)
	if err != nil {
		return fmt.Errorf("open %s: %w", env.System, err)
	}
	s, err := newServer(q, env)
	if err != nil {
		return err
	}
	return s.serve(ctx, os.Stdin, os.Stdout)
}

// profile writes where this process spends its time to the folder that BENCH_PROFILE names, if it does.
func profile(env queue.Env) (stop func(), err error) {
	folder := os.Getenv("BENCH_PROFILE")
	if folder == "" {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%s-%s-%d.pprof", env.System, env.Role, os.Getpid()))) //nolint:gosec // the caller's own folder
	if err != nil {
		return nil, fmt.Errorf("BENCH_PROFILE: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("BENCH_PROFILE: %w", err)
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil
}
