package bench_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// circumstances tell when, with what and on which machine the figures were made.
func circumstances(t *testing.T, command string, took time.Duration) string {
	t.Helper()
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	pipelinetest.Must(t, err)
	return fmt.Sprintf("%s, `%s` of %s, %v, on %d cores of %s, %s of memory, Linux %s. Servers: %s. Libraries: %s, %s.",
		time.Now().UTC().Format("2006-01-02"), command, commit(t), took.Round(time.Second), runtime.NumCPU(), processor(t), memory(t),
		strings.TrimSpace(string(kernel)), strings.Join(servers(t), ", "), strings.Join(libraries(t), ", "), runtime.Version())
}

// commit is that of the sources; a plus says that they have been changed since.
func commit(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "an unknown commit"
	}
	return strings.TrimSpace(string(out))
}

func processor(t *testing.T) string {
	t.Helper()
	if name := found(t, "/proc/cpuinfo", `model name\s*:\s*(.+)`); name != "" {
		return name
	}
	return runtime.GOARCH
}

func memory(t *testing.T) string {
	t.Helper()
	var kib int64
	_, err := fmt.Sscan(found(t, "/proc/meminfo", `MemTotal:\s*(\d+)`), &kib)
	pipelinetest.Must(t, err)
	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}

// servers are those that this machine has, with their versions.
func servers(t *testing.T) []string {
	t.Helper()
	versions := []string{
		pipelinetest.MySQL(t).Version(t), "Apache Kafka " + artifact(t, "../scripts/kafka/pom.xml", `kafka_\S+`),
		"RocketMQ " + artifact(t, "java/broker/pom.xml", "rocketmq-broker"),
	}
	for _, s := range []struct{ name, command, version string }{
		{"Redis", "redis-server", `v=(\S+)`},
		{"PostgreSQL", "/usr/lib/postgresql/*/bin/postgres", `\) (\S+)`},
		{"Node.js", "node", `v(\S+)`},
		{"OpenJDK", "java", `openjdk (\S+)`},
	} {
		if path := installed(s.command); path != "" {
			out, err := exec.CommandContext(t.Context(), path, "--version").Output()
			pipelinetest.Must(t, err)
			versions = append(versions, s.name+" "+match(string(out), s.version))
		}
	}
	for _, s := range []struct{ name, path string }{
		{"ZooKeeper", "/usr/share/java/zookeeper-[0-9]*.jar"}, {"RabbitMQ", "/usr/lib/rabbitmq/lib/rabbitmq_server-*"},
	} {
		if paths, err := filepath.Glob(s.path); err == nil && len(paths) > 0 {
			versions = append(versions, s.name+" "+match(paths[len(paths)-1], `-([0-9.]*[0-9])`))
		}
	}
	return versions
}

// installed finds a program, also where only root or Debian looks.
func installed(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range []string{name, "/usr/sbin/" + name} {
		if paths, err := filepath.Glob(pattern); err == nil && len(paths) > 0 {
			return paths[len(paths)-1]
		}
	}
	return ""
}

// libraries are those that speak for the peers.
func libraries(t *testing.T) []string {
	t.Helper()
	var versions []string
	for _, l := range []struct{ name, module string }{
		{"asynq", "github.com/hibiken/asynq"},
		{"river", "github.com/riverqueue/river"},
		{"pgx", "github.com/jackc/pgx/v5"},
		{"amqp091-go", "github.com/rabbitmq/amqp091-go"},
		{"go-redis", "github.com/redis/go-redis/v9"},
		{"go-sql-driver", "github.com/go-sql-driver/mysql"},
		{"kafka-go", "github.com/segmentio/kafka-go"},
	} {
		versions = append(versions, l.name+" "+found(t, "go.mod", regexp.QuoteMeta(l.module)+` (v\S+)`))
	}
	text, err := os.ReadFile("bullmq/package.json")
	pipelinetest.Must(t, err)
	var node struct{ Dependencies map[string]string }
	pipelinetest.Must(t, json.Unmarshal(text, &node))
	for _, name := range []string{"bullmq", "ioredis", "mysql2"} {
		versions = append(versions, name+" "+node.Dependencies[name])
	}
	for _, name := range []string{"rocketmq-client", "redisson", "jesque", "mariadb-java-client"} {
		versions = append(versions, name+" "+artifact(t, "java/pom.xml", name))
	}
	return versions
}

// artifact is the version of a dependency in a pom.xml.
func artifact(t *testing.T, path, name string) string {
	t.Helper()
	return found(t, path, name+`</artifactId>\s*<version>([^<]+)<`)
}

// found is the first group of an expression's first match in a file; empty if there is none.
func found(t *testing.T, path, expression string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	pipelinetest.Must(t, err)
	return match(string(text), expression)
}

func match(text, expression string) string {
	if m := regexp.MustCompile(expression).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
