package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/dsn"
)

var (
	namespaceForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	queueForm     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	hostForm      = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?$`)
)

// errDSN quotes nothing: the driver's own error may quote the password.
var errDSN = errors.New("mysql.dsn: is not of the form user:password@tcp(host:port)/schema")

const tenYears = 87600 * time.Hour

// Validate returns nil, or one line that names each key out of its limits, its value and the limit, and each combination
// that cannot work. It contacts no server.
func (c Config) Validate() error { return c.validate() }

func (c Config) validate(sections ...Section) error {
	var p Problems
	c.checkNumbers(&p)
	c.checkWords(&p)
	c.checkNames(&p)
	c.checkLimits(&p)
	c.checkAddresses(&p)
	c.checkRedis(&p)
	c.checkSecrets(&p)
	c.checkTLS(&p)
	c.checkTrace(&p)
	for _, s := range sections {
		s.Validate(&p)
		if s, ok := s.(crossChecked); ok {
			s.ValidateWith(c, &p)
		}
	}
	return p.orNil()
}

// Addf adds a problem.
func (p *Problems) Addf(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

// CheckInt adds a problem unless the number is within the range, both ends allowed.
func (p *Problems) CheckInt(key string, got, lowest, highest int) {
	checkBounds(p, key, got, lowest, highest, strconv.Itoa)
}

// CheckDuration adds a problem unless the duration is within the range, both ends allowed.
func (p *Problems) CheckDuration(key string, got, lowest, highest time.Duration) {
	checkBounds(p, key, got, lowest, highest, formatDuration)
}

// CheckListen adds a problem unless addr is an address to listen on.
func (p *Problems) CheckListen(key, addr string) { checkAddress(p, key, Loopback(addr), 0) }

// CheckAdmin adds a problem unless addr is empty or an address to listen on.
func (p *Problems) CheckAdmin(key, addr string) {
	if addr != "" {
		p.CheckListen(key, addr)
	}
}

func checkBounds[T int | time.Duration](p *Problems, key string, got, lowest, highest T, format func(T) string) {
	switch {
	case got < lowest:
		p.Addf("%s: %s is below the limit %s", key, format(got), format(lowest))
	case got > highest:
		p.Addf("%s: %s is above the limit %s", key, format(got), format(highest))
	}
}

func (c Config) checkNumbers(p *Problems) {
	p.CheckInt("shards", c.Shards, 1, 1024)
	p.CheckInt("kafka.partitions", c.Kafka.Partitions, 1, 10_000)
	p.CheckInt("kafka.replication", c.Kafka.Replication, 1, 32)
	p.CheckInt("worker.concurrency", c.Worker.Concurrency, 1, 256)
	p.CheckInt("mysql.max_open", c.MySQL.MaxOpen, 4, 1000)
	p.CheckInt("worker.replicas", c.Worker.Replicas, 0, 10_000)
	p.CheckInt("worker.batch", c.Worker.Batch, 1, 1000)
	p.CheckDuration("kafka.session_timeout", c.Kafka.SessionTimeout, time.Second, 30*time.Minute)
	p.CheckDuration("zookeeper.session_timeout", c.ZooKeeper.SessionTimeout, 100*time.Millisecond, 10*time.Minute)
	p.CheckDuration("event.lead", c.Event.Lead, 0, time.Second)
	p.CheckDuration("worker.handler_timeout", c.Worker.HandlerTimeout, 10*time.Millisecond, time.Hour)
	p.CheckDuration("worker.drain", c.Worker.Drain, 0, time.Hour)
	if c.Worker.Late != 0 { // off
		p.CheckDuration("worker.late", c.Worker.Late, 100*time.Millisecond, time.Hour)
	}
	if c.Index.Horizon != 0 { // everything
		p.CheckDuration("index.horizon", c.Index.Horizon, time.Minute, tenYears)
	}
	p.CheckDuration("daemon.lookahead", c.Daemon.Lookahead, 0, 24*time.Hour)
	p.CheckDuration("daemon.grace", c.Daemon.Grace, 10*time.Millisecond, time.Hour)
	p.CheckDuration("daemon.interval", c.Daemon.Interval, 10*time.Millisecond, time.Hour)
	c.Daemon.checkRetention(p)
	// Each stop would roll back handlers that are within their time.
	if drain, longest := c.Worker.Drain, c.Worker.HandlerTimeout; drain > 0 && drain < longest {
		p.Addf("worker.drain: %s is below worker.handler_timeout %s: each stop would roll back handlers that are within their time",
			formatDuration(drain), formatDuration(longest))
	}
}

func (c Config) checkWords(p *Problems) {
	for _, w := range []struct {
		key, got string
		words    []string
	}{
		{"redis.mode", c.Redis.Mode, []string{"standalone", "sentinel", "cluster"}},
		{"kafka.sasl.mechanism", c.Kafka.SASL.Mechanism, []string{"SCRAM-SHA-512", "SCRAM-SHA-256"}},
		{"log.level", c.Log.Level, []string{"debug", "info", "warn", "error"}},
		{"log.format", c.Log.Format, []string{"json", "text"}},
	} {
		if !slices.Contains(w.words, w.got) {
			p.Addf("%s: %q is none of %s", w.key, w.got, strings.Join(w.words, ", "))
		}
	}
}

// checkNames checks the names that become parts of keys, topics, groups and znodes. A brace would move a Redis key to
// another slot than its shard's. ZooKeeper refuses a path of dots alone. Kafka refuses two topics that differ only in "."
// against "_". Dots join names, and a part "q" stands between a namespace and a queue: a namespace with such a part, as
// "shop.q.mail", could mean the topics of namespace "shop".
func (c Config) checkNames(p *Problems) {
	if !namespaceForm.MatchString(c.Namespace) || strings.Trim(c.Namespace, ".") == "" {
		p.Addf("namespace: %q is not 1 to 64 letters, digits or . _ - (and not dots alone)", c.Namespace)
	} else if strings.Contains(c.Namespace, ".") && slices.Contains(strings.Split(c.Namespace, "."), "q") {
		p.Addf("namespace: %q has a part q, so that its topics could be those of the namespace before it", c.Namespace)
	}
	if len(c.Queues) == 0 {
		p.Addf("queues: needs at least one queue")
	}
	seen := make(map[string]string, len(c.Queues))
	for _, queue := range c.Queues {
		if !queueForm.MatchString(queue) {
			p.Addf("queues: %q is not 1 to 64 letters, digits or . _ -", queue)
		}
		if strings.ReplaceAll(queue, ".", "_") == "duetime_witness" {
			p.Addf("queues: %q is the witness's own queue, or has a topic that Kafka can't tell from its", queue)
		}
		if queue == "compensate" {
			p.Addf("queues: %q is the daemon's own consumer group", queue)
		}
		topic := strings.ReplaceAll(queue, ".", "_")
		switch before, twice := seen[topic]; {
		case twice && before == queue:
			p.Addf("queues: %q stands there twice", queue)
		case twice:
			p.Addf("queues: %q and %q differ only in . and _, which Kafka refuses", before, queue)
		}
		seen[topic] = queue
	}
}

func (c Config) checkAddresses(p *Problems) {
	// Without its "@" the driver takes user:password for the name of a network.
	if parsed, err := mysql.ParseDSN(string(c.MySQL.DSN)); err != nil || parsed.DBName == "" || strings.Contains(parsed.Net, ":") {
		if reason := dsn.Unreadable(string(c.MySQL.DSN)); reason != "" {
			p.Addf("mysql.dsn: %s", reason)
		} else {
			p.Addf("%v", errDSN)
		}
	} else if err := dsn.Check(string(c.MySQL.DSN)); err != nil {
		p.Addf("mysql.dsn: %v", err)
	}
	for _, list := range []struct {
		key   string
		addrs []string
	}{
		{"redis.addrs", c.Redis.Addrs}, {"kafka.brokers", c.Kafka.Brokers}, {"zookeeper.servers", c.ZooKeeper.Servers},
	} {
		if len(list.addrs) == 0 {
			p.Addf("%s: needs at least one host:port", list.key)
		}
		for _, addr := range list.addrs {
			checkAddress(p, list.key, addr, 1)
		}
	}
	p.CheckAdmin("event.admin", c.Event.Admin)
	p.CheckAdmin("worker.admin", c.Worker.Admin)
	p.CheckAdmin("daemon.admin", c.Daemon.Admin)
}

// checkAddress accepts only host:port. Port 0, "any free one", is accepted only for an address that we listen on. The
// problem names whatever other programs accept in such a list, since our clients would wait for such a server forever.
func checkAddress(p *Problems, key, addr string, lowest int) {
	if why := notAddress(addr); why != "" {
		at := strings.LastIndex(addr, "@") + 1 // a password may stand before it
		p.Addf("%s: %q is not of the form host:port: %s", key, addr[at:], why)
		return
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !isHost(host) {
		p.Addf("%s: %q is not of the form host:port", key, addr)
		return
	}
	if !isPort(port, lowest) {
		p.Addf("%s: port of %q is not a number from %d to 65535", key, addr, lowest)
	}
}

// notAddress tells from an address's characters what is wrong with it, or returns nothing.
func notAddress(addr string) string {
	switch {
	case strings.Contains(addr, "://"):
		return "write it without a scheme, TLS is set by the tls keys"
	case strings.Contains(addr, "@"):
		return "write it without a user, the credentials have keys of their own"
	case strings.ContainsAny(addr, " \t\r\n"):
		return "it has a space"
	case strings.ContainsAny(addr, ",;"):
		return "each address is an item of the list"
	case strings.Contains(addr, "/"):
		return "it has a path (there is no chroot, the namespace keeps our nodes apart)"
	case addr != "" && !strings.Contains(addr, ":"), strings.HasSuffix(addr, ":"), strings.HasPrefix(addr, "[") && strings.HasSuffix(addr, "]"):
		return "it has no port"
	case strings.Count(addr, ":") > 1 && !strings.HasPrefix(addr, "["):
		return "write an IPv6 address in brackets"
	}
	return ""
}

// isPort reports whether the text is a port's number.
func isPort(text string, lowest int) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && int(n) >= lowest
}

// isHost reports whether the text is a valid host name or IP address. It resolves nothing.
func isHost(host string) bool {
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return hostForm.MatchString(host)
}

// checkRedis refuses fields that do not belong to the mode: the client guesses the mode from these fields.
func (c Config) checkRedis(p *Problems) {
	r := c.Redis
	if r.Mode == "sentinel" && r.MasterName == "" {
		p.Addf("redis.master_name: is needed with redis.mode sentinel")
	}
	if r.Mode != "sentinel" && r.MasterName != "" {
		p.Addf("redis.master_name: %q has no use with redis.mode %s", r.MasterName, r.Mode)
	}
	if r.Mode != "sentinel" && r.SentinelUsername != "" {
		p.Addf("redis.sentinel_username: %q has no use with redis.mode %s", r.SentinelUsername, r.Mode)
	}
	if s := r.sentinelSecret(); r.Mode != "sentinel" && (s.value != "" || s.file != "") {
		p.Addf("%s: has no use with redis.mode %s", s.setKey(), r.Mode)
	}
	if r.Mode == "standalone" && len(r.Addrs) > 1 {
		p.Addf("redis.addrs: %d addresses, but redis.mode standalone has one", len(r.Addrs))
	}
}

func (c Config) checkTrace(p *Problems) {
	if s := c.Trace.Sample; !(s >= 0 && s <= 1) { // refuses NaN too
		p.Addf("trace.sample: %g is not within 0 and 1", s)
	}
	if c.Trace.Endpoint == "" {
		return
	}
	u, err := url.Parse(c.Trace.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		p.Addf("trace.endpoint: is not of the form http://host:port or https://host:port") // not repeated: it may hold a password
	}
}

// Loopback completes an address to listen on that has no host ("9000", ":9000") with 127.0.0.1, so that nothing is
// offered to the network by omission. It returns other values unchanged, the empty one too.
func Loopback(addr string) string {
	if port, ok := strings.CutPrefix(addr, ":"); ok {
		return net.JoinHostPort("127.0.0.1", port)
	}
	if _, err := strconv.ParseUint(addr, 10, 32); err == nil {
		return net.JoinHostPort("127.0.0.1", addr)
	}
	return addr
}
