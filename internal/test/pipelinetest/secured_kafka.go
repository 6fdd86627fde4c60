package pipelinetest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kafkaSecurity makes Kafka's further listeners speak SASL over TLS: users show who they are by SCRAM, and may
// do nothing that no ACL allows. The first listener and the controller's stay open, for the test and for Kafka itself.
type kafkaSecurity struct {
	authority *Authority
	cert      Certificate
	users     map[string]string // their passwords by name
}

// scramMechanisms are those that listeners take. The users that the server is made with have the first one.
var scramMechanisms = []string{"SCRAM-SHA-512", "SCRAM-SHA-256"}

// scramLogins is what a listener with users says of them.
func scramLogins(listener string) (lines []string) {
	for _, mechanism := range scramMechanisms {
		lines = append(lines, "listener.name."+strings.ToLower(listener+"."+mechanism)+
			".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
	}
	return lines
}

// OwnSecureKafka starts a Kafka for this test alone that has these users, with their passwords, and further lines of
// server.properties. Clients connect to SecureAddr with SASL over TLS; to Addr without either, as one who may do all.
func OwnSecureKafka(t testing.TB, a *Authority, users map[string]string, lines ...string) *KafkaServer {
	t.Helper()
	s, err := startKafka("", kafkaFronts{[]string{""}, a.kafka(t, users)}, lines)
	Must(t, err)
	Own(t, s.Server)
	return s
}

// OwnSecureKafkaBehindMany is OwnSecureKafka whose users reach it only through one of n proxies each.
func OwnSecureKafkaBehindMany(t testing.TB, a *Authority, users map[string]string, n int, lines ...string) (*KafkaServer, []*ToxicProxy) {
	t.Helper()
	return ownKafkaBehind(t, n, a.kafka(t, users), lines)
}

// SecureAddr returns where the users of an OwnSecureKafka connect.
func (s *KafkaServer) SecureAddr() string { return s.ports[kafkaBehind].addr() }

func (a *Authority) kafka(t testing.TB, users map[string]string) *kafkaSecurity {
	t.Helper()
	return &kafkaSecurity{a, a.Issue(t, "kafka"), users}
}

// properties are none for a Kafka without security.
func (k *kafkaSecurity) properties() []string {
	if k == nil {
		return nil
	}
	return []string{
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + k.cert.BothFile,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + k.authority.CAFile,
		"sasl.enabled.mechanisms=" + strings.Join(scramMechanisms, ","),
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS",
	}
}

// fill formats a log folder with the users in it.
func (k *kafkaSecurity) fill(data string) error {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(k.users)) {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", scramMechanisms[0], name, k.users[name]))
	}
	_, err := formatKafkaAt(filepath.Dir(data), data, args...)
	return err
}
