package pipelinetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// RedisServer is a redis-server without persistence: its memory is lost at every stop.
type RedisServer struct{ *Server }

// StartRedis starts a redis-server in dir (empty: a folder of the run's own) with further arguments of its command
// line, for example "--maxmemory", "8mb".
func StartRedis(dir string, args ...string) (*RedisServer, error) {
	s, err := startServer(dir, redisRecipe(args))
	if err != nil {
		return nil, err
	}
	return &RedisServer{s}, nil
}

func redisRecipe(args []string) recipe {
	return recipe{
		name:  "redis",
		ports: 1,
		command: func(data string, ports []*portLock) (*exec.Cmd, error) {
			base := []string{"--port", strconv.Itoa(ports[0].port), "--save", "", "--appendonly", "no"}
			return redisCommand(data, append(base, args...))
		},
		ready: redisReady,
	}
}

func redisCommand(data string, args []string) (*exec.Cmd, error) {
	path, err := redisProgram()
	if err != nil {
		return nil, err
	}
	base := []string{"--bind", "127.0.0.1", "--dir", data, "--daemonize", "no", "--repl-diskless-sync-delay", "0"}
	return exec.Command(path, append(base, args...)...), nil //nolint:gosec,noctx // a fixed program, ended by kill
}

// redisPrograms are the servers that DUETIME_TEST_REDIS names.
var redisPrograms = map[string]func() (string, error){
	"":       installed("redis-server"),
	"redis8": fetched("sid-redis-server", "redis-server"),
	"valkey": fetched("sid-valkey-server", "valkey-server"),
}

// redisProgram is the server that DUETIME_TEST_REDIS names, or else the installed redis-server.
func redisProgram() (string, error) {
	name := os.Getenv("DUETIME_TEST_REDIS")
	find, known := redisPrograms[name]
	if !known {
		return "", fmt.Errorf("DUETIME_TEST_REDIS is %q, and must be redis8 or valkey", name)
	}
	return find()
}

// redisReady takes the server as ready when it answers PING, also where it asks for a password first.
func redisReady(ctx context.Context, addr string) error {
	answer, err := ask(ctx, addr, "PING\r\n")
	if err != nil {
		return err
	}
	if strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH") {
		return nil
	}
	return fmt.Errorf("redis answers %q", strings.TrimSpace(answer))
}

// ask sends one line and returns the first line of the answer.
func ask(ctx context.Context, addr, line string) (string, error) {
	return converse(ctx, addr, line, func(r *bufio.Reader) (string, error) { return r.ReadString('\n') })
}

// askAll sends one line and returns all that comes until the server hangs up.
func askAll(ctx context.Context, addr, line string) (string, error) {
	return converse(ctx, addr, line, func(r *bufio.Reader) (string, error) {
		text, err := io.ReadAll(r)
		return string(text), err
	})
}

func converse(ctx context.Context, addr, line string, read func(*bufio.Reader) (string, error)) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", fmt.Errorf("set a deadline: %w", err)
	}
	if _, err := conn.Write([]byte(line)); err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	answer, err := read(bufio.NewReader(conn))
	if err != nil && answer == "" {
		return "", fmt.Errorf("no answer: %w", err)
	}
	return answer, nil
}
