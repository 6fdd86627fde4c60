#!/bin/sh
# What each of duetime's users may do on Kafka. An administrator runs this with Kafka's own tools in the PATH, after making
# the users with kafka-configs.sh --alter --entity-type users --add-config 'SCRAM-SHA-512=[password=...]' (or
# SCRAM-SHA-256, and kafka.sasl.mechanism).
#
#   BOOTSTRAP=broker:9092 ADMIN=admin.properties NAMESPACE=duetime deploy/kafka/acls.sh
set -eu

# allow USER ARGUMENTS...: more rights for duetime_USER.
allow() {
  user=$1
  shift
  kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal "User:duetime_$user" "$@"
}

hints="--topic $NAMESPACE.q. --resource-pattern-type prefixed"
compensations="--topic $NAMESPACE.compensate"

# Whoever meets a topic that is gone makes it again.
for user in event worker daemon migrate; do
  allow "$user" --operation Describe --operation Create --topic "$NAMESPACE." --resource-pattern-type prefixed
done

allow event --operation Write $hints
allow event --operation Write $compensations

allow worker --operation Read $hints
allow worker --operation Read --group "$NAMESPACE." --resource-pattern-type prefixed
allow worker --operation Write $compensations
allow worker --operation Write --topic "$NAMESPACE.dead"

# The daemon looks how far the workers' groups have come, and at the first hint that they have not.
allow daemon --operation Read $hints
allow daemon --operation Describe --group "$NAMESPACE." --resource-pattern-type prefixed
allow daemon --operation Read $compensations
allow daemon --operation Read --group "$NAMESPACE.compensate"
# The witness.
allow daemon --operation Write $compensations
allow daemon --operation Read --group "$NAMESPACE.q.duetime.witness"

allow game --operation Write $compensations
allow api --operation Write $compensations

allow operator --operation Write $compensations
allow operator --operation Describe $hints
allow operator --operation Describe --group "$NAMESPACE." --resource-pattern-type prefixed
