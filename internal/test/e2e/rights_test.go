package e2e_test

import (
	"crypto/tls"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestRights does as each user what its process does not, and a few things that it does.
func TestRights(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	f := newFortress(t)
	f.Ready(t, "game").Stop(t) // which makes the game's tables
	t.Run("mysql", func(t *testing.T) { f.rightsOnMySQL(t) })
	t.Run("redis", func(t *testing.T) { f.rightsOnRedis(t) })
	t.Run("kafka", func(t *testing.T) { f.rightsOnKafka(t) })
}

const everybody = "event worker daemon game api operator"

const noDefault = 1364 // a column that an INSERT leaves out

func (f *fortress) rightsOnMySQL(t *testing.T) {
	dbs := map[string]*sql.DB{}
	for _, user := range pipelinetest.Users {
		cfg, err := mysql.ParseDSN(strings.Replace(f.DSN, "root@", "duetime_"+user+"@", 1))
		pipelinetest.Must(t, err)
		cfg.Passwd, cfg.TLS, cfg.InterpolateParams = f.Secured.Password(user), f.Secured.Authority.Client(t), true
		dbs[user] = connect(t, cfg)
		cfg.TLS, cfg.Logger = nil, &mysql.NopLogger{}
		if err := connect(t, cfg).PingContext(t.Context()); err == nil {
			t.Errorf("%s comes in without TLS", user)
		}
	}
	for statement, may := range map[string]string{
		"SELECT id FROM duetime_tasks LIMIT 1":                                             "worker daemon game api operator migrate",
		"SELECT id FROM duetime_tasks WHERE id = '' FOR UPDATE":                            "worker game api operator migrate daemon",
		"INSERT INTO duetime_tasks (id) SELECT '' FROM DUAL WHERE 1 = 0":                   "worker daemon game api operator migrate",
		"UPDATE duetime_tasks SET state = 1 WHERE id = ''":                                 "worker daemon game api operator migrate",
		"SELECT id FROM duetime_ended LIMIT 1":                                             "worker daemon game api operator migrate",
		"INSERT INTO duetime_ended (id) SELECT '' FROM DUAL WHERE 1 = 0":                   "daemon migrate",
		"DELETE FROM duetime_ended WHERE id = ''":                                          "daemon",
		"INSERT INTO duetime_recurrences (id) SELECT '' FROM DUAL WHERE 1 = 0":             "worker daemon game api migrate",
		"UPDATE duetime_recurrences SET state = 1 WHERE id = ''":                           "worker daemon game api operator migrate",
		"DELETE FROM duetime_recurrences WHERE id = ''":                                    "daemon",
		"INSERT INTO duetime_operations (id) SELECT '' FROM DUAL WHERE 1 = 0":              "worker game api operator migrate",
		"UPDATE duetime_operations SET state = 1 WHERE id = ''":                            "worker daemon game api operator migrate",
		"DELETE FROM duetime_operations WHERE id = ''":                                     "daemon",
		"SELECT rate FROM duetime_limits":                                                  "worker daemon game api operator migrate",
		"INSERT INTO duetime_limits (queue, holders) SELECT '', '' FROM DUAL WHERE 1 = 0":  "worker operator migrate",
		"UPDATE duetime_limits SET version = 1 WHERE queue = ''":                           "worker operator migrate",
		"DELETE FROM duetime_limits WHERE queue = ''":                                      "daemon api operator",
		"SELECT owner FROM duetime_blocks LIMIT 1":                                         "worker daemon game api operator migrate",
		"SELECT owner FROM duetime_blocks WHERE owner = '' FOR UPDATE":                     "worker daemon game api operator migrate",
		"INSERT IGNORE INTO duetime_blocks (owner, at) SELECT '', 0 FROM DUAL WHERE 1 = 0": "worker game api operator migrate",
		"UPDATE duetime_blocks SET actor = '' WHERE owner = ''":                            "migrate",
		"DELETE FROM duetime_blocks WHERE owner = ''":                                      "worker daemon game api operator",
		"SELECT id FROM duetime_pending LIMIT 1":                                           "worker game migrate",
		"UPDATE duetime_pending SET version = 0 WHERE id = ''":                             "migrate",
		"SELECT name FROM duetime_labels LIMIT 1":                                          "worker daemon game api operator migrate",
		"INSERT INTO duetime_labels (name) SELECT '' FROM DUAL WHERE 1 = 0":                "worker daemon game api operator migrate",
		"SELECT name FROM duetime_groups WHERE name = '' FOR UPDATE":                       "worker daemon game api operator migrate",
		"INSERT INTO duetime_groups (name) SELECT '' FROM DUAL WHERE 1 = 0":                "worker game api migrate",
		"DELETE FROM duetime_groups WHERE name = ''":                                       "daemon",
		"INSERT INTO duetime_group_parts (name) SELECT '' FROM DUAL WHERE 1 = 0":           "worker daemon game api operator migrate",
		"UPDATE duetime_group_parts SET open = 0 WHERE name = ''":                          "worker daemon game api operator migrate",
		"DELETE FROM duetime_group_parts WHERE name = ''":                                  "daemon",
		"UPDATE duetime_labels SET value = '' WHERE name = ''":                             "migrate",
		"DELETE FROM duetime_labels WHERE name = ''":                                       "daemon",
		"DELETE FROM duetime_tasks WHERE id = ''":                                          "daemon",
		"TRUNCATE duetime_history":                                                         "",
		"SELECT epoch FROM duetime_epochs":                                                 "event daemon operator migrate",
		"UPDATE duetime_epochs SET epoch = epoch WHERE name = ''":                          "event daemon migrate",
		"DELETE FROM duetime_epochs WHERE name = ''":                                       "",
		"SELECT shards FROM duetime_layout":                                                everybody + " migrate",
		"UPDATE duetime_layout SET shards = 1 WHERE 1 = 0":                                 "operator migrate",
		"UPDATE duetime_layout SET moved = 1 WHERE 1 = 0":                                  "daemon operator migrate",
		"UPDATE duetime_layout SET namespace = '' WHERE 1 = 0":                             "migrate",
		"UPDATE duetime_tasks SET shard = 0 WHERE id = ''":                                 "worker daemon game api operator migrate",
		"SELECT id FROM duetime_processes":                                                 "event worker daemon api operator migrate",
		"INSERT INTO duetime_processes (id) SELECT '' FROM DUAL WHERE 1 = 0":               "event worker daemon api operator migrate",
		"UPDATE duetime_processes SET seen_at = 0 WHERE id = ''":                           "event worker daemon api operator migrate",
		"DELETE FROM duetime_processes WHERE id = ''":                                      "event worker daemon api operator",
		"SELECT name FROM duetime_requests":                                                "event worker daemon game api operator migrate",
		"DELETE FROM duetime_requests WHERE name = ''":                                     "daemon api operator",
		"UPDATE duetime_requests SET epoch = 0 WHERE name = ''":                            "api operator migrate",
		"SELECT owner FROM duetime_pauses":                                                 "worker daemon game api operator migrate",
		"UPDATE duetime_pauses SET actor = '' WHERE owner = ''":                            "worker api operator migrate",
		"DELETE FROM duetime_pauses WHERE owner = ''":                                      "daemon api operator",
		"DELETE FROM duetime_handovers WHERE queue = ''":                                   "daemon api operator",
		"INSERT INTO duetime_requests (name, made_at) SELECT '', 0 FROM DUAL WHERE 1 = 0":  "daemon api operator migrate",
		"INSERT INTO duetime_history (at, event) SELECT 0, '' FROM DUAL WHERE 1 = 0":       "worker daemon game api operator migrate",
		"SELECT seq FROM duetime_history LIMIT 1":                                          "worker daemon game operator migrate",
		"UPDATE duetime_history SET actor = '' WHERE seq = 0":                              "migrate",
		"DELETE FROM duetime_history WHERE seq = 0":                                        "daemon",
		"SELECT id FROM duetime_witness_plays LIMIT 1":                                     "daemon operator migrate",
		"INSERT INTO duetime_witness_plays (id) SELECT '' FROM DUAL WHERE 1 = 0":           "daemon migrate",
		"UPDATE duetime_witness_plays SET faults = '' WHERE id = ''":                       "migrate",
		"DELETE FROM duetime_witness_plays WHERE id = ''":                                  "daemon",
		"SELECT seq FROM duetime_witness_effects LIMIT 1":                                  "daemon migrate",
		"INSERT INTO duetime_witness_effects (play) SELECT '' FROM DUAL WHERE 1 = 0":       "daemon migrate",
		"UPDATE duetime_witness_effects SET data = 0 WHERE seq = 0":                        "migrate",
		"DELETE FROM duetime_witness_effects WHERE seq = 0":                                "daemon",
		"UPDATE pets SET food = food WHERE id = 0":                                         "worker game migrate",
		"INSERT INTO pets (owner) SELECT '' FROM DUAL WHERE 1 = 0":                         "game migrate",
		"DELETE FROM pet_journal WHERE seq = 0":                                            "",
		"SELECT seq FROM pet_journal LIMIT 1":                                              "worker game operator migrate",
		"DROP TABLE duetime_tasks":                                                         "",
		"CREATE TABLE mine (id INT)":                                                       "migrate",
		"SELECT user FROM mysql.user":                                                      "",
	} {
		for _, user := range pipelinetest.Users {
			_, err := dbs[user].ExecContext(t.Context(), statement)
			if answer, ok := errors.AsType[*mysql.MySQLError](err); ok && answer.Number == noDefault {
				err = nil // it was let in
			}
			wantRight(t, user, statement, may, err)
		}
	}
}

func connect(t *testing.T, cfg *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(cfg)
	pipelinetest.Must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// wantRight wants no error if the user is among those who may, and one otherwise.
func wantRight(t *testing.T, user, what, may string, err error) {
	t.Helper()
	allowed := false
	for _, name := range strings.Fields(may) {
		allowed = allowed || name == user
	}
	if allowed != (err == nil) {
		t.Errorf("%s: %s: %v, want it to be allowed: %v", user, what, err, allowed)
	}
}

func (f *fortress) rightsOnRedis(t *testing.T) {
	key := func(name string) string { return f.Namespace + ":{3}:" + name }
	for _, user := range strings.Fields(everybody) {
		client := redis.NewClient(&redis.Options{
			Addr: f.Redis, Username: "duetime_" + user, Password: f.Secured.Password(user), TLSConfig: f.Secured.Authority.Client(t), Protocol: 2,
		})
		for command, may := range map[string]string{
			"PING": everybody, "INFO": everybody,
			"ZADD " + key("due") + " 1 x":         "worker daemon game api operator",
			"ZREM " + key("due") + " x":           everybody,
			"ZADD " + key("owner:ann") + " 1 x":   "worker daemon game api operator",
			"ZREM " + key("owner:ann") + " x":     "worker daemon game api operator",
			"ZRANGE " + key("owner:ann") + " 0 1": "daemon game operator",
			"SET " + key("epoch") + " 0":          "event",
			"GET " + key("epoch"):                 "event operator",
			"SET " + key("gen") + " x":            "event daemon",
			"MGET " + key("gen"):                  "event daemon operator",
			"PUBLISH " + key("wake") + " 0":       "worker daemon game api operator",
			"PUBLISH other 0":                     "",
			"GET " + f.Namespace + "2:{3}:due":    "",
			"GET other":                           "",
			"SCAN 0":                              "daemon operator",
			"FLUSHALL":                            "",
			"CONFIG GET *":                        "",
			"ACL LIST":                            "",
			"KEYS *":                              "",
			"DEL " + key("due"):                   "",
			"DEL " + key("gen"):                   "operator",
			"SHUTDOWN":                            "",
		} {
			var args []any
			for _, word := range strings.Fields(command) {
				args = append(args, word)
			}
			err := client.Do(t.Context(), args...).Err()
			if errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") {
				err = nil // it was let in
			}
			wantRight(t, user, command, may, err)
		}
		pipelinetest.Must(t, client.Close())
	}
	stranger := redis.NewClient(&redis.Options{Addr: f.Redis, TLSConfig: f.Secured.Authority.Client(t), Protocol: 2})
	defer func() { _ = stranger.Close() }()
	if err := stranger.Ping(t.Context()).Err(); err == nil {
		t.Error("Redis answers a stranger")
	}
}

func (f *fortress) rightsOnKafka(t *testing.T) {
	for _, user := range strings.Fields(everybody) {
		mechanism, err := scram.Mechanism(scram.SHA512, "duetime_"+user, f.Secured.Password(user))
		pipelinetest.Must(t, err)
		transport := &kafka.Transport{SASL: mechanism, TLS: f.Secured.Authority.Client(t)}
		for topic, may := range map[string]struct{ read, write string }{
			f.Namespace + ".q.default":  {"worker daemon", "event"},
			f.Namespace + ".compensate": {"daemon", "event worker daemon game api operator"},
			f.Namespace + ".dead":       {"", "worker"},
		} {
			wantRight(t, user, "write "+topic, may.write, produce(t, f.Kafka, transport, topic))
			wantRight(t, user, "read "+topic, may.read, fetch(t, f.Kafka, transport, topic))
		}
		transport.CloseIdleConnections()
	}
	stranger := &kafka.Transport{TLS: &tls.Config{RootCAs: f.Secured.Authority.Client(t).RootCAs}}
	defer stranger.CloseIdleConnections()
	if err := fetch(t, f.Kafka, stranger, f.Namespace+".q.default"); err == nil {
		t.Error("Kafka answers a stranger")
	}
}

// produce appends a record that nobody takes for a hint.
func produce(t *testing.T, addr string, transport *kafka.Transport, topic string) error {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: transport}
	res, err := client.Produce(t.Context(), &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes([]byte("x"))}),
	})
	if err != nil {
		return err
	}
	return res.Error
}

func fetch(t *testing.T, addr string, transport *kafka.Transport, topic string) error {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: transport}
	res, err := client.Fetch(t.Context(), &kafka.FetchRequest{Topic: topic, Offset: 0, MinBytes: 0, MaxBytes: 1 << 10})
	if err != nil {
		return err
	}
	return res.Error
}
