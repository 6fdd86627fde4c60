package pipelinetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/segmentio/kafka-go"
)

const (
	kafkaCluster = "MkU3OEVBNTcwNTJENDM2Qg" // any 22 characters of base64
	kafkaNode    = "1"
	kafkaBehind  = 2 // the first of the ports that proxies lead to; before it the clients' and the controller's
)

// KafkaServer is Apache Kafka itself, one node that is broker and controller. Topics are never made by themselves.
type KafkaServer struct{ *Server }

// StartKafka starts Kafka in dir (empty: a folder of the run's own) with further lines of its server.properties.
func StartKafka(dir string, lines ...string) (*KafkaServer, error) {
	return startKafka(dir, kafkaFronts{}, lines)
}

// kafkaFronts are further listeners, whose clients are told to come back by way of an address each; an empty one is the
// listener's own.
type kafkaFronts struct {
	addrs  []string
	secure *kafkaSecurity // nil: in plain text
}

// startKafka starts Kafka with further listeners.
func startKafka(dir string, fronts kafkaFronts, lines []string) (*KafkaServer, error) {
	fill := fillKafka
	if fronts.secure != nil {
		fill = fronts.secure.fill
	}
	s, err := startServer(dir, recipe{
		name:  "kafka",
		ports: kafkaBehind + len(fronts.addrs),
		fill:  func(data string, _ []*portLock) error { return fill(data) },
		command: func(data string, ports []*portLock) (*exec.Cmd, error) {
			return kafkaCommand(data, append(kafkaProperties(data, ports, fronts), lines...))
		},
		ready: kafkaReady,
	})
	if err != nil {
		return nil, err
	}
	return &KafkaServer{s}, nil
}

// kafkaProperties is the smallest Kafka: every internal topic with one replica and few partitions.
func kafkaProperties(data string, ports []*portLock, fronts kafkaFronts) []string {
	return append(kafkaListeners(ports, fronts),
		"process.roles=broker,controller", "node.id="+kafkaNode,
		"controller.quorum.voters="+kafkaNode+"@"+ports[1].addr(),
		"controller.listener.names=CONTROLLER", "inter.broker.listener.name=PLAINTEXT",
		"log.dirs="+data, "auto.create.topics.enable=false", "num.partitions=1", "default.replication.factor=1",
		"group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
		"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		"log.index.size.max.bytes=1048576", "num.network.threads=2", "num.io.threads=4",
		"log.cleaner.enable=false", "controlled.shutdown.enable=false",
		// A batch of metadata that lingers while the clock goes back is held until it has caught up, and with it every
		// later one, the broker's heartbeats included.
		"controller.quorum.append.linger.ms=0",
	)
}

// kafkaListeners names where Kafka listens and what it tells clients: each listener answers with an address of its
// own, so a client that came by way of a proxy never learns of a way around it.
func kafkaListeners(ports []*portLock, fronts kafkaFronts) []string {
	client := "PLAINTEXT://" + ports[0].addr()
	listen, advertise := client+",CONTROLLER://"+ports[1].addr(), client
	protocols := "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
	protocol, lines := "PLAINTEXT", fronts.secure.properties()
	if fronts.secure != nil {
		protocol = "SASL_SSL"
	}
	for i, front := range fronts.addrs {
		name, own := fmt.Sprintf("PROXIED%d", i), ports[kafkaBehind+i].addr()
		listen += "," + name + "://" + own
		advertise += "," + name + "://" + cmp.Or(front, own)
		protocols += "," + name + ":" + protocol
		if fronts.secure != nil {
			lines = append(lines, scramLogins(name)...)
		}
	}
	return append(lines,
		"listeners="+listen, "advertised.listeners="+advertise, "listener.security.protocol.map="+protocols)
}

// fillKafka copies a formatted log folder; nothing in it depends on ports or paths.
func fillKafka(data string) error {
	jars, err := kafkaJars()
	if err != nil {
		return err
	}
	template, err := cached(filepath.Base(jars)+"-formatted", formatKafka)
	if err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return fmt.Errorf("copy the template: %w", err)
	}
	return nil
}

func formatKafka(dir string) error {
	logs := filepath.Join(dir, "logs")
	properties, err := formatKafkaAt(dir, logs)
	if err != nil {
		return err
	}
	// Only what format made is to be kept, at the folder's own top.
	if err := os.Remove(properties); err != nil {
		return fmt.Errorf("tidy the template: %w", err)
	}
	if err := os.CopyFS(dir, os.DirFS(logs)); err != nil {
		return fmt.Errorf("tidy the template: %w", err)
	}
	return os.RemoveAll(logs)
}

// formatKafkaAt formats the folder logs with further arguments, and gives the file beside it that says how.
func formatKafkaAt(dir, logs string, args ...string) (properties string, err error) {
	ports := []*portLock{{port: 1}, {port: 2}} // never listened on
	if properties, err = writeProperties(dir, kafkaProperties(logs, ports, kafkaFronts{})); err != nil {
		return "", err
	}
	cmd, err := kafkaJava(append([]string{"kafka.tools.StorageTool", "format", "-t", kafkaCluster, "-c", properties}, args...)...)
	if err != nil {
		return "", err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("format Kafka's log folder: %w\n%s", err, out)
	}
	return properties, nil
}

func kafkaCommand(data string, properties []string) (*exec.Cmd, error) {
	path, err := writeProperties(filepath.Dir(data), properties)
	if err != nil {
		return nil, err
	}
	return kafkaJava("kafka.Kafka", path)
}

func writeProperties(dir string, lines []string) (string, error) {
	path := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write server.properties: %w", err)
	}
	return path, nil
}

func kafkaJava(args ...string) (*exec.Cmd, error) {
	jars, err := kafkaJars()
	if err != nil {
		return nil, err
	}
	base := []string{"-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(jars, "*")}
	return java(append(base, args...)...)
}

// kafkaJars is the cache's folder with Kafka's jars, named after the pom.xml that lists them; scripts/kafka/fetch
// fills it under the same name.
func kafkaJars() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	pom, err := os.ReadFile(filepath.Join(root, "scripts", "kafka", "pom.xml")) //nolint:gosec // our own file
	if err != nil {
		return "", fmt.Errorf("read which Kafka to start: %w", err)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pom)
	dir := filepath.Join(cache, "kafka-"+hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(dir); err != nil { //nolint:gosec // whoever runs the tests names the cache
		return "", errors.New("the jars of Apache Kafka are not fetched: run ./scripts/test (or ./scripts/kafka/fetch)")
	}
	return dir, nil
}

// kafkaReady takes Kafka as ready when it shows itself as an unfenced broker with a controller.
func kafkaReady(ctx context.Context, addr string) error {
	broker, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", addr, err)
	}
	conn, err := kafka.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	brokers, err := conn.Brokers()
	if err != nil {
		return fmt.Errorf("ask for the brokers: %w", err)
	}
	if len(brokers) != 1 || brokers[0].Port != broker.Port {
		return fmt.Errorf("kafka knows %d brokers", len(brokers))
	}
	return nil
}
