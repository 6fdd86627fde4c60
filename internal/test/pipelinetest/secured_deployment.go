package pipelinetest

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
)

// Users are who has an account of its own on each server: the five processes, and the tool as migrate and as all else. Redis
// has one more, admin, which may do everything there.
var Users = []string{"event", "worker", "daemon", "game", "api", "migrate", "operator"}

// Secured is what the processes of a Deployment know whose links are all encrypted, and on which they may do no more than
// the files in deploy grant their users.
type Secured struct {
	Authority *Authority

	dir      string // of the files that follow
	own      Certificate
	password map[string]string // by user
}

// SecuredServers are servers of one test, for one namespace, that speak TLS and know the users.
type SecuredServers struct {
	*Secured

	MySQL     *MySQLServer
	Redis     *RedisServer
	ZooKeeper *ZooKeeperServer
	Kafka     *KafkaServer
	namespace string
}

// OwnSecuredServers starts all four servers for this test alone, with further lines of Kafka's server.properties.
func OwnSecuredServers(t testing.TB, namespace string, kafkaLines ...string) *SecuredServers {
	t.Helper()
	needServers(t)
	a := NewAuthority(t)
	s := &Secured{Authority: a, dir: t.TempDir(), own: a.Issue(t, "process"), password: map[string]string{}}
	for _, user := range append(Users, "zookeeper", "pprof", "admin") {
		s.password[user] = rand.Text()
		Must(t, os.WriteFile(s.file(user), []byte(s.password[user]+"\n"), 0o600))
	}
	kafkaUsers := map[string]string{}
	for _, user := range Users {
		kafkaUsers["duetime_"+user] = s.password[user]
	}
	return &SecuredServers{
		Secured: s, namespace: namespace,
		MySQL:     OwnMySQL(t, a.SecureMySQL(t)...),
		Redis:     OwnSecureRedis(t, a, "--aclfile", s.accessList(t, namespace)),
		ZooKeeper: OwnSecureZooKeeper(t, a),
		Kafka:     OwnSecureKafka(t, a, kafkaUsers, kafkaLines...),
	}
}

func (s *Secured) file(user string) string { return filepath.Join(s.dir, user+".password") }

// Password returns a user's, which is the same on each server.
func (s *Secured) Password(user string) string { return s.password[user] }

// WriteTLS writes into a folder what a Secret of cert-manager holds for our processes: ca.crt, tls.crt and tls.key.
func (s *Secured) WriteTLS(t testing.TB, dir string) {
	t.Helper()
	for name, path := range map[string]string{"ca.crt": s.Authority.CAFile, "tls.crt": s.own.CertFile, "tls.key": s.own.KeyFile} {
		text, err := os.ReadFile(path) //nolint:gosec // the authority's
		Must(t, err)
		Must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600)) //nolint:gosec // a test's own folder
	}
}

// Filled returns the text of a file in deploy with its variables filled in: the users' passwords, and more.
func (s *Secured) Filled(t testing.TB, path string, more map[string]string) string {
	t.Helper()
	root, err := moduleRoot()
	Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "deploy", path)) //nolint:gosec // our own file
	Must(t, err)
	return os.Expand(string(text), func(name string) string {
		if value, ok := more[name]; ok {
			return value
		}
		user := strings.ToLower(strings.TrimSuffix(name, "_PASSWORD"))
		if s.password[user] == "" {
			t.Errorf("deploy/%s wants %s, which nobody fills in", path, name)
		}
		return s.password[user]
	})
}

// accessList writes deploy/redis/users.acl as Redis is to read it.
func (s *Secured) accessList(t testing.TB, namespace string) string {
	t.Helper()
	path := filepath.Join(s.dir, "users.acl")
	Must(t, os.WriteFile(path, []byte(s.Filled(t, "redis/users.acl", map[string]string{"NAMESPACE": namespace})), 0o600))
	return path
}

// Deploy makes a schema with its users, tables and grants, and gives the topics to their users.
func (s *SecuredServers) Deploy(t testing.TB) Deployment {
	t.Helper()
	d := Deployment{
		DSN: s.MySQL.NewSchema(t), Redis: s.Redis.Addr(), ZooKeeper: s.ZooKeeper.SecureAddr(), Kafka: s.Kafka.SecureAddr(),
		Namespace: s.namespace, Secured: s.Secured,
	}
	s.allow(t)
	return d
}

// run has an administrator run one of the files in deploy/mysql.
func (s *Secured) run(t testing.TB, d Deployment, path string) {
	t.Helper()
	address, schema, _ := strings.Cut(strings.TrimPrefix(d.DSN, "root@tcp("), ")/")
	db, err := sql.Open("mysql", "root@tcp("+address+")/?multiStatements=true")
	Must(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), s.Filled(t, path, map[string]string{"SCHEMA": schema})); err != nil {
		t.Fatalf("deploy/%s: %v", path, err)
	}
}

// env is what the process of a user knows beyond the addresses.
func (s *Secured) env(d Deployment, user string) []string {
	env := []string{
		"DUETIME_MYSQL__DSN=" + strings.Replace(d.DSN, "root@", "duetime_"+user+"@", 1),
		"DUETIME_REDIS__USERNAME=duetime_" + user, "DUETIME_KAFKA__SASL__USERNAME=duetime_" + user,
		"DUETIME_MYSQL__PASSWORD_FILE=" + s.file(user), "DUETIME_REDIS__PASSWORD_FILE=" + s.file(user),
		"DUETIME_KAFKA__SASL__PASSWORD_FILE=" + s.file(user),
		"DUETIME_ZOOKEEPER__USERNAME=duetime", "DUETIME_ZOOKEEPER__PASSWORD_FILE=" + s.file("zookeeper"),
		"DUETIME_ZOOKEEPER__TLS__CERT_FILE=" + s.own.CertFile, "DUETIME_ZOOKEEPER__TLS__KEY_FILE=" + s.own.KeyFile,
		"DUETIME_PPROF__TOKEN_FILE=" + s.file("pprof"),
	}
	for _, link := range []string{"MYSQL", "REDIS", "KAFKA", "ZOOKEEPER"} {
		env = append(env, "DUETIME_"+link+"__TLS__CA_FILE="+s.Authority.CAFile)
	}
	return env
}

// allow runs deploy/kafka/acls.sh with a stand-in for Kafka's own tool, and does what that was told.
func (s *SecuredServers) allow(t testing.TB) {
	t.Helper()
	root, err := moduleRoot()
	Must(t, err)
	bin := t.TempDir()
	recorded := filepath.Join(bin, "told")
	Must(t, os.WriteFile(filepath.Join(bin, "kafka-acls.sh"), []byte("#!/bin/sh\necho \"$*\" >>\"$TOLD\"\n"), 0o700)) //nolint:gosec // it is run
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deploy", "kafka", "acls.sh"))                        //nolint:gosec // our own script
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TOLD="+recorded, "BOOTSTRAP="+s.Kafka.Addr(), "ADMIN=none", "NAMESPACE="+s.namespace)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("deploy/kafka/acls.sh: %v\n%s", err, out)
	}
	text, err := os.ReadFile(recorded) //nolint:gosec // the stand-in's
	Must(t, err)
	var acls []kafka.ACLEntry
	for line := range strings.Lines(string(text)) {
		entries, err := readACL(strings.Fields(line))
		Must(t, err)
		acls = append(acls, entries...)
	}
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(s.Kafka.Addr()), Transport: transport}
	res, err := client.CreateACLs(t.Context(), &kafka.CreateACLsRequest{ACLs: acls})
	Must(t, err)
	Must(t, errors.Join(res.Errors...))
}

// readACL understands one command line of kafka-acls.sh.
func readACL(args []string) ([]kafka.ACLEntry, error) {
	entry := kafka.ACLEntry{Host: "*", PermissionType: kafka.ACLPermissionTypeAllow, ResourcePatternType: kafka.PatternTypeLiteral}
	var operations []kafka.ACLOperationType
	for i := 0; i < len(args); i++ {
		if args[i] == "--add" {
			continue
		}
		if i+1 == len(args) {
			return nil, fmt.Errorf("%s has no value", args[i])
		}
		option, value := args[i], args[i+1]
		i++
		switch option {
		case "--bootstrap-server", "--command-config":
		case "--allow-principal":
			entry.Principal = value
		case "--operation":
			var op kafka.ACLOperationType
			if err := op.UnmarshalText([]byte(value)); err != nil {
				return nil, fmt.Errorf("%s: %w", option, err)
			}
			operations = append(operations, op)
		case "--topic":
			entry.ResourceType, entry.ResourceName = kafka.ResourceTypeTopic, value
		case "--group":
			entry.ResourceType, entry.ResourceName = kafka.ResourceTypeGroup, value
		case "--resource-pattern-type":
			entry.ResourcePatternType = kafka.PatternTypePrefixed
		default:
			return nil, fmt.Errorf("%s is not understood", option)
		}
	}
	entries := make([]kafka.ACLEntry, len(operations))
	for i, op := range operations {
		entries[i] = entry
		entries[i].Operation = op
	}
	return entries, nil
}
