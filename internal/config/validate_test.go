package config

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesKeyValueAndLimit(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"mysql.dsn: parameter autocommit: ":                                     func(c *Config) { c.MySQL.DSN += "?autocommit=0" },
		"mysql.dsn: parameter charset: \"latin1\" can't be, it must be utf8mb4": func(c *Config) { c.MySQL.DSN += "?loc=Local&charset=latin1" },

		`namespace: "a{b}"`:                                                        func(c *Config) { c.Namespace = "a{b}" },
		`namespace: ""`:                                                            func(c *Config) { c.Namespace = "" },
		`namespace: ".."`:                                                          func(c *Config) { c.Namespace = ".." },
		`namespace: "xxx`:                                                          func(c *Config) { c.Namespace = strings.Repeat("x", 65) },
		`namespace: "shop.q.mail" has a part q`:                                    func(c *Config) { c.Namespace = "shop.q.mail" },
		`namespace: "shop.q" has a part q`:                                         func(c *Config) { c.Namespace = "shop.q" },
		`namespace: "q.shop" has a part q`:                                         func(c *Config) { c.Namespace = "q.shop" },
		"queues: needs":                                                            func(c *Config) { c.Queues = nil },
		`queues: "a b"`:                                                            func(c *Config) { c.Queues = []string{"a b"} },
		`queues: "a" stands`:                                                       func(c *Config) { c.Queues = []string{"a", "b", "a"} },
		`queues: "duetime.witness" is`:                                             func(c *Config) { c.Queues = []string{"duetime.witness"} },
		`queues: "compensate" is`:                                                  func(c *Config) { c.Queues = []string{"compensate"} },
		`queues: "a.b" and "a_b"`:                                                  func(c *Config) { c.Queues = []string{"a.b", "a_b"} },
		"shards: 0 is below the limit 1":                                           func(c *Config) { c.Shards = 0 },
		"shards: 1025 is above the limit 1024":                                     func(c *Config) { c.Shards = 1025 },
		"mysql.max_open: 3 is below the limit 4":                                   func(c *Config) { c.MySQL.MaxOpen = 3 },
		"worker.replicas: 10001 is above the limit 10000":                          func(c *Config) { c.Worker.Replicas = 10_001 },
		"worker.batch: 1001 is above the limit 1000":                               func(c *Config) { c.Worker.Batch = 1001 },
		"worker.concurrency: 257 is above":                                         func(c *Config) { c.Worker.Concurrency = 257 },
		"worker.handler_timeout: 0s is below":                                      func(c *Config) { c.Worker.HandlerTimeout = 0 },
		"worker.drain: -1s is below the limit 0s":                                  func(c *Config) { c.Worker.Drain = -time.Second },
		"worker.drain: 8s is below worker.handler_timeout 10s":                     func(c *Config) { c.Worker.Drain = 8 * time.Second },
		"worker.drain: 2h is above the limit 1h":                                   func(c *Config) { c.Worker.Drain = 2 * time.Hour },
		"event.lead: 1.001s is above the limit 1s":                                 func(c *Config) { c.Event.Lead = 1001 * time.Millisecond },
		"event.lead: -1ms is below the limit 0s":                                   func(c *Config) { c.Event.Lead = -time.Millisecond },
		"daemon.retention_by_kind: ping: 59s is below the limit 1m":                func(c *Config) { c.Daemon.RetentionByKind = Retentions{"ping": 59 * time.Second} },
		"daemon.retention_by_kind: ping: 87601h is above the limit 87600h":         func(c *Config) { c.Daemon.RetentionByKind = Retentions{"ping": tenYears + time.Hour} },
		"daemon.retention_by_kind: a b: kind must be 1 to":                         func(c *Config) { c.Daemon.RetentionByKind = Retentions{"a b": time.Hour} },
		"daemon.retention: 999ms is below the limit 1s":                            func(c *Config) { c.Daemon.Retention = 999 * time.Millisecond },
		"kafka.partitions: 0 is below":                                             func(c *Config) { c.Kafka.Partitions = 0 },
		"kafka.replication: 0 is below":                                            func(c *Config) { c.Kafka.Replication = 0 },
		"kafka.session_timeout: 31m is above the limit 30m":                        func(c *Config) { c.Kafka.SessionTimeout = 31 * time.Minute },
		"zookeeper.session_timeout: 1h is above the limit 10m":                     func(c *Config) { c.ZooKeeper.SessionTimeout = time.Hour },
		"trace.sample: 1.5 is not within 0 and 1":                                  func(c *Config) { c.Trace.Sample = 1.5 },
		"trace.sample: NaN is not within 0 and 1":                                  func(c *Config) { c.Trace.Sample = math.NaN() },
		"trace.endpoint: is not of the form http://host:port or https://host:port": func(c *Config) { c.Trace.Endpoint = "127.0.0.1:4318" },
		`log.level: "INFO" is none of debug, info, warn, error`:                    func(c *Config) { c.Log.Level = "INFO" },
		`log.format: "xml" is none of json, text`:                                  func(c *Config) { c.Log.Format = "xml" },
		`kafka.sasl.mechanism: "PLAIN" is none of SCRAM-SHA-512, SCRAM-SHA-256`:    func(c *Config) { c.Kafka.SASL.Mechanism = "PLAIN" },
		`redis.mode: "" is none of`:                                                func(c *Config) { c.Redis.Mode = "" },
		"redis.master_name: is needed":                                             func(c *Config) { c.Redis.Mode = "sentinel" },
		`redis.master_name: "m" has no use`:                                        func(c *Config) { c.Redis.MasterName = "m" },
		"redis.addrs: 2 addresses":                                                 func(c *Config) { c.Redis.Addrs = []string{"a:1", "b:1"} },
		`redis.username: "u" needs a redis.password or`:                            func(c *Config) { c.Redis.Username = "u" },
		`redis.sentinel_username: "u" needs a redis.sentinel_password or`: func(c *Config) {
			c.Redis.Mode, c.Redis.MasterName, c.Redis.SentinelUsername = "sentinel", "m", "u"
		},
		`redis.addrs: "localhost" is not`:         func(c *Config) { c.Redis.Addrs = []string{"localhost"} },
		`kafka.brokers: port of "a:0"`:            func(c *Config) { c.Kafka.Brokers = []string{"a:0"} },
		`zookeeper.servers: port of "a:65536"`:    func(c *Config) { c.ZooKeeper.Servers = []string{"a:65536"} },
		`zookeeper.servers: ":2181" is not`:       func(c *Config) { c.ZooKeeper.Servers = []string{":2181"} },
		`event.admin: "localhost" is not`:         func(c *Config) { c.Event.Admin = "localhost" },
		`daemon.admin: port of "127.0.0.1:70000"`: func(c *Config) { c.Daemon.Admin = ":70000" },
		"mysql.dsn: is not of the form":           func(c *Config) { c.MySQL.DSN = "root:hunter2(h)/x" },
		"parameter loc: a slash in a value is written %2F, as in loc=Asia%2FShanghai": func(c *Config) {
			c.MySQL.DSN = "root:hunter2@tcp(127.0.0.1:3306)/duetime?loc=Asia/Shanghai&parseTime=true"
		},
		`mysql.dsn: parameter loc: "Asia/Shanghay" is no time zone that this machine knows`: func(c *Config) {
			c.MySQL.DSN = "root:hunter2@tcp(127.0.0.1:3306)/duetime?loc=Asia%2FShanghay"
		},
	} {
		c := Default()
		change(&c)
		err := c.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), ";") {
			t.Errorf("got %v, want one problem and no password", err)
		}
	}
	c := Default()
	c.MySQL.DSN = "root@tcp(127.0.0.1)/"
	if c.Validate() == nil {
		t.Error("a DSN without a schema passed")
	}
}

func TestValidateAllows(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"sentinel":    func(c *Config) { c.Redis = Redis{Mode: "sentinel", MasterName: "m", Addrs: []string{"a:1", "b:2"}} },
		"cluster":     func(c *Config) { c.Redis = Redis{Mode: "cluster", Addrs: []string{"a:1", "b:2", "c:3"}} },
		"acl user":    func(c *Config) { c.Redis.Username, c.Redis.Password = "u", "p" },
		"a name q":    func(c *Config) { c.Namespace, c.Queues = "q", []string{"q", "q.a", "a.q.b"} },
		"dots":        func(c *Config) { c.Namespace, c.Queues = "prod.shop", []string{"mail.high", "dead"} },
		"root's dot":  func(c *Config) { c.ZooKeeper.Servers = []string{"zk.example.:2181", "zoo_1:2181", "10.0.0.1:2181"} },
		"lead off":    func(c *Config) { c.Event.Lead = 0 },
		"ipv6":        func(c *Config) { c.Event.Admin = "[::1]:8080"; c.Kafka.Brokers = []string{"[fe80::1%eth0]:9092"} },
		"free ports":  func(c *Config) { c.Event.Admin, c.Daemon.Admin = ":0", ":0" },
		"unix socket": func(c *Config) { c.MySQL.DSN = "root:a@b/c:d@unix(/run/s.sock)/game" },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddressesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for key, set := range map[string]func(*Config, string){
		"redis.addrs":       func(c *Config, a string) { c.Redis.Addrs = []string{a} },
		"kafka.brokers":     func(c *Config, a string) { c.Kafka.Brokers = []string{a} },
		"zookeeper.servers": func(c *Config, a string) { c.ZooKeeper.Servers = []string{a} },
	} {
		for addr, want := range map[string]string{
			"host:2181/chroot":        "it has a path",
			"host:2181/":              "it has a path",
			"a:2181,b:2181/app":       "each address is an item",
			"a:1;b:2":                 "each address is an item",
			"a:1 b:2":                 "it has a space",
			" a:1":                    "it has a space",
			"a:1\n":                   "it has a space",
			"redis://a:6379":          "without a scheme",
			"SASL_SSL://a:9092":       "without a scheme",
			"redis://:hunter2@a:6379": "without a scheme",
			"root:hunter2@a:1":        "without a user",
			"root@a:1":                "without a user",
			"a":                       "it has no port",
			"a:":                      "it has no port",
			"[::1]":                   "it has no port",
			"::1":                     "in brackets",
			"::1:2181":                "in brackets",
			"a:2181x":                 "port of",
			"a:+80":                   "port of",
			"a:-1":                    "port of",
			"a:٢":                     "port of",
			"[a]b:1":                  "is not of the form",
			"[::1%]:1":                "is not of the form",
			"a%20b:1":                 "is not of the form",
			"-a:1":                    "is not of the form",
			"...:1":                   "is not of the form",
		} {
			c := Default()
			set(&c, addr)
			err := c.Validate()
			if err == nil || !strings.HasPrefix(err.Error(), key+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %q: got %v, want %s", key, addr, err, want)
			}
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"": "", "9000": "127.0.0.1:9000", ":9000": "127.0.0.1:9000", "0.0.0.0:9000": "0.0.0.0:9000",
		"[::]:9000": "[::]:9000", "host:9000": "host:9000", "host": "host", "-1": "-1",
	} {
		if got := Loopback(addr); got != want {
			t.Errorf("Loopback(%q) = %q, want %q", addr, got, want)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	for session, want := range map[time.Duration]time.Duration{
		6 * time.Second: 500 * time.Millisecond, 2 * time.Second: 200 * time.Millisecond, time.Minute: 500 * time.Millisecond,
	} {
		if got := (Kafka{SessionTimeout: session}).Heartbeat(); got != want {
			t.Errorf("session %v: got %v, want %v", session, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(Table()), "\n")
	if got, want := len(lines), len(Keys())+2; got != want {
		t.Errorf("got %d lines, want %d", got, want)
	}
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || i > 1 && (len(strings.TrimSpace(cells[3])) < 8 || cells[2] == " `` ") {
			t.Errorf("line %d lacks a cell: %s", i+1, line)
		}
	}
	for _, want := range []string{"| `redis.password` | empty |", "| `daemon.retention` | `168h` |", "| `queues` | `[default]` |"} {
		if !strings.Contains(Table(), want) {
			t.Errorf("no %s in\n%s", want, Table())
		}
	}
}
