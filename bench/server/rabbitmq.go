package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/duetime/duetime/internal/test/pipelinetest" //nolint:depguard // only tests call this package
)

// OwnRabbitMQ starts a RabbitMQ for this test alone, with its data in dir and no plugins, and returns its AMQP URL.
func OwnRabbitMQ(t testing.TB, dir string) string {
	t.Helper()
	pipelinetest.Must(t, os.MkdirAll(dir, 0o700))
	pipelinetest.Must(t, os.WriteFile(filepath.Join(dir, "plugins"), []byte("[].\n"), 0o600))
	port, names := freePort(t), ownNames(t)
	env := []string{
		"HOME=" + dir, // of Erlang's cookie
		"RABBITMQ_NODENAME=bench" + strconv.Itoa(port) + "@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(port),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(freePort(t)),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_PORT=" + strconv.Itoa(names),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		// Files that are not there: what this machine's own RabbitMQ is configured by does not count.
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "env"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "config"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(dir, "advanced"),
		"RUNNING_UNDER_SYSTEMD=true", // or a shell stays between us and the broker, which would outlive it
	}
	p := pipelinetest.Run(t, program(t, "/usr/lib/rabbitmq/bin/rabbitmq-server"), env)
	url := "amqp://guest:guest@" + local(port) + "/"
	await(t, p, "rabbitmq", func() error {
		conn, err := amqp.Dial(url)
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		return conn.Close()
	})
	return url
}

// ownNames starts the name server that Erlang would otherwise start by itself, for good and for everybody, and returns
// its port.
func ownNames(t testing.TB) int {
	t.Helper()
	port := freePort(t)
	p := pipelinetest.Run(t, program(t, "/usr/bin/epmd"), nil, "-port", strconv.Itoa(port), "-address", "127.0.0.1")
	await(t, p, "epmd", func() error {
		conn, err := net.Dial("tcp", local(port)) //nolint:noctx // of this machine
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		return conn.Close()
	})
	return port
}

// await polls until the server answers; the test fails when it has ended, or has not answered for two minutes.
func await(t testing.TB, p *pipelinetest.Proc, name string, ready func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := ready()
		if err == nil {
			return
		}
		if !p.Running() {
			t.Fatalf("%s ended at once: %v\n%s", name, err, p.Stdout())
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready: %v\n%s", name, err, p.Stdout())
		}
	}
}
