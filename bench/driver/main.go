// Command driver runs one system in a process of its own, so that it can be killed. It reads requests from standard
// input, one JSON object a line, and answers each with one line, as package protocol lists them. It is configured by the
// environment variable BENCH, an Env in JSON, and its first line says that the system is open.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

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
