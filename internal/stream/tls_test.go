package stream_test

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/trust"
)

// limit bounds each wait of a test: the machine may be slow and shared.
const limit = time.Minute

// TestTLS uses a Kafka that accepts users only over TLS; one user has an ACL.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := pipelinetest.NewAuthority(t), pipelinetest.NewAuthority(t)
	server := pipelinetest.OwnSecureKafka(t, ours, map[string]string{"player": "right", "nobody": "right"})
	for _, user := range []string{"player", "elder"} {
		allow(t, server.Addr(), user)
	}
	giveSHA256(t, server.Addr(), "elder", "right")
	trusting := trust.Files{CAFile: ours.CAFile}
	for name, c := range map[string]struct {
		addr           string
		files          trust.Files
		mechanism      string
		user, password string
		want           string // the beginning of the refusal; empty: no refusal
	}{
		"over TLS":                   {server.SecureAddr(), trusting, "", "player", "right", ""},
		"by SHA-256":                 {server.SecureAddr(), trusting, "SCRAM-SHA-256", "elder", "right", ""},
		"by another mechanism":       {server.SecureAddr(), trusting, "SCRAM-SHA-512", "elder", "right", "kafka.sasl.username or kafka.sasl.password: "},
		"wrong password":             {server.SecureAddr(), trusting, "", "player", "wrong", "kafka.sasl.username or kafka.sasl.password: "},
		"unknown user":               {server.SecureAddr(), trusting, "", "stranger", "right", "kafka.sasl.username or kafka.sasl.password: "},
		"another authority":          {server.SecureAddr(), trust.Files{CAFile: theirs.CAFile}, "", "player", "right", "kafka.tls.ca_file: "},
		"this machine's authorities": {server.SecureAddr(), trust.Files{CAFile: trust.System}, "", "player", "right", "kafka.tls.ca_file: "},
		"another name":               {strings.Replace(server.SecureAddr(), "127.0.0.1", "localhost", 1), trusting, "", "player", "right", "kafka.tls.ca_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := trust.Client("kafka.tls", c.files)
			pipelinetest.Must(t, err)
			k, err := stream.NewKafka(stream.Config{
				Namespace: pipelinetest.Namespace(t), Brokers: []string{c.addr}, Partitions: 2,
				TLS: cfg, Mechanism: c.mechanism, Username: c.user, Password: c.password,
			})
			pipelinetest.Must(t, err)
			defer func() { pipelinetest.Must(t, k.Close()) }()
			if c.want == "" {
				wantHints(t, k)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			for what, err := range map[string]error{
				"ping": k.Ping(ctx), "ensure": k.Ensure(ctx),
				"consume": k.Consume(ctx, "default", func(context.Context, protocol.Session) error { return nil }),
			} {
				if refusal := stream.Refusal(err); refusal == nil || !strings.Contains(refusal.Error(), c.want) {
					t.Errorf("%s: got %v, of which %v, want %s", what, err, refusal, c.want)
				}
			}
		})
	}
	t.Run("without an ACL", func(t *testing.T) {
		t.Parallel()
		k, err := stream.NewKafka(stream.Config{
			Namespace: pipelinetest.Namespace(t), Brokers: []string{server.SecureAddr()}, Partitions: 2,
			TLS: ours.Client(t), Username: "nobody", Password: "right",
		})
		pipelinetest.Must(t, err)
		defer func() { pipelinetest.Must(t, k.Close()) }()
		if err := k.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "kafka.sasl.username: access is refused") {
			t.Errorf("got %v, want it to name kafka.sasl.username", err)
		}
	})
}

// wantHints creates the topics, and sends a hint through the queue's group.
func wantHints(t *testing.T, k *stream.Kafka) {
	t.Helper()
	pipelinetest.Must(t, k.Ping(t.Context()))
	pipelinetest.Must(t, k.Ensure(t.Context()))
	pipelinetest.Must(t, errors.Join(k.Publish(t.Context(), []protocol.Entry{entry("ann", 1)}, 1)...))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	committed := false
	err := k.Consume(ctx, "default", func(ctx context.Context, s protocol.Session) error {
		got, err := s.Fetch(ctx)
		if err == nil && len(got) == 1 {
			err = s.Commit(ctx, next(got))
			committed = err == nil
			cancel()
		}
		return err
	})
	if err != nil || !committed {
		t.Errorf("consume: %v, committed %v", err, committed)
	}
}

// allow gives the user all rights.
func allow(t *testing.T, addr, user string) {
	t.Helper()
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: transport}
	var acls []kafka.ACLEntry
	for _, kind := range []kafka.ResourceType{kafka.ResourceTypeTopic, kafka.ResourceTypeGroup} {
		acls = append(acls, kafka.ACLEntry{
			ResourceType: kind, ResourceName: "*", ResourcePatternType: kafka.PatternTypeLiteral,
			Principal: "User:" + user, Host: "*", Operation: kafka.ACLOperationTypeAll, PermissionType: kafka.ACLPermissionTypeAllow,
		})
	}
	res, err := client.CreateACLs(t.Context(), &kafka.CreateACLsRequest{ACLs: acls})
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, errors.Join(res.Errors...))
}

// giveSHA256 makes a user that has a password for SCRAM-SHA-256 alone.
func giveSHA256(t *testing.T, addr, user, password string) {
	t.Helper()
	const rounds = 4096
	salt := []byte("of no importance")
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	pipelinetest.Must(t, err)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&kafka.Client{Addr: kafka.TCP(addr), Transport: transport}).AlterUserScramCredentials(t.Context(), &kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: user, Mechanism: kafka.ScramMechanismSha256, Iterations: rounds, Salt: salt, SaltedPassword: salted,
		}},
	})
	pipelinetest.Must(t, err)
	for _, result := range res.Results {
		pipelinetest.Must(t, result.Error)
	}
}
