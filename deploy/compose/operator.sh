#!/bin/bash
# The operator of the demo, with Kafka's own tools: producers write 3 MB/s, and every few minutes a topic moves under a throttle that
# is too low. The throttle is above what producers write, as guides recommend. But it also carries the in-sync follower, so steady-state
# replication takes twice the write rate, and the move never ends without help.
set -euo pipefail

BIN=/opt/kafka/bin
SERVERS=kafka-1:9092,kafka-2:9092,kafka-3:9092
TOPIC=orders
THROTTLE_BYTES_PER_S=4500000
RECORD_BYTES=10000
RECORDS_PER_S=300
PRELOAD_RECORDS=12000
PAUSE_S=${PAUSE_S:-120}
POLL_S=10

log() { echo "operator: $*"; }

# produce RECORDS RECORDS_PER_S
produce() {
  "$BIN/kafka-producer-perf-test.sh" --topic "$TOPIC" --num-records "$1" --throughput "$2" --record-size "$RECORD_BYTES" \
    --producer-props "bootstrap.servers=$SERVERS" acks=all partitioner.ignore.keys=true
}

# Returns whether partitions move at the moment.
is_moving() { "$BIN/kafka-reassign-partitions.sh" --bootstrap-server "$SERVERS" --list | grep -q "^$TOPIC-"; }

await_end_of_move() {
  while is_moving; do
    kill -0 "$load" || { log "the load has ended"; exit 1; }
    sleep "$POLL_S"
  done
}

# move BROKER: the second replica of each partition moves to this broker.
move() {
  local partition entries=()
  for partition in 0 1 2 3; do
    entries+=("{\"topic\": \"$TOPIC\", \"partition\": $partition, \"replicas\": [1, $1]}")
  done
  (IFS=,; echo "{\"version\": 1, \"partitions\": [${entries[*]}]}") >/tmp/plan.json
  "$BIN/kafka-reassign-partitions.sh" --bootstrap-server "$SERVERS" --reassignment-json-file /tmp/plan.json --execute \
    --throttle "$THROTTLE_BYTES_PER_S" >/dev/null
  log "topic $TOPIC moves to broker $1 with a throttle of $THROTTLE_BYTES_PER_S bytes/s"
}

# Retention keeps the demo's disk small: at most 50 MB and the segment in use for each of the four partitions.
"$BIN/kafka-topics.sh" --bootstrap-server "$SERVERS" --create --if-not-exists --topic "$TOPIC" \
  --replica-assignment 1:2,1:2,1:2,1:2 --config retention.bytes=50000000 --config segment.bytes=10000000
produce "$PRELOAD_RECORDS" -1 >/dev/null
produce 1000000000 "$RECORDS_PER_S" >/dev/null &
load=$!
trap 'kill "$load" 2>/dev/null || true' EXIT
trap 'exit 143' TERM
log "producers write $((RECORDS_PER_S * RECORD_BYTES)) bytes/s to topic $TOPIC"
target=3
while true; do
  await_end_of_move
  move "$target"
  await_end_of_move
  log "the move has ended"
  target=$((5 - target)) # Between broker 2 and broker 3.
  sleep "$PAUSE_S"
done
