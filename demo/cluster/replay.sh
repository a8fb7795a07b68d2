#!/bin/bash
# An application of Kafka Streams is killed at the last of a million records, and starts again: how many records of its changelog
# does it need, and after how long does it run? Everleaf's store beside RocksDB's, with exactly-once and transactional stores
# (commits of 100 ms), and at least once (commits of 1 s). One broker, one task.
#
#   replay.sh [RECORDS [ROUNDS]]     1000000 and 1 unless set
#
# It ends with 1 if a record is missing, or if Everleaf's store needs more records than it may: what comes in within one commit
# (exactly-once), or in 1.2 s (at least once). Between the kill and the start it waits until the brokers have forgotten the dead
# application, for which both stores would wait in the same way. Times are printed and not judged.
set -u

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
top=$repo/target/cluster
run=$top/run
log=$top/log-replay
records=${1:-1000000}
rounds=${2:-1}
loopback=yes
case $records$rounds in *[!0-9]*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" && exit 2 ;; esac

. "$here/cluster.sh"

broker() {
    servers=127.0.0.1:19094
    cat >"$run/broker.properties" <<X
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:19194
listeners=PLAINTEXT://127.0.0.1:19094,CONTROLLER://127.0.0.1:19194
controller.listener.names=CONTROLLER
log.dirs=$run/broker
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
X
    java_in host format 128 io.everleaf.demo.Format "$run/broker.properties"
    gone format 60
    java_in host broker 512 kafka.Kafka "$run/broker.properties"
    java_in host fill 256 io.everleaf.demo.Replay task=fill servers=$servers records=$records
    gone fill 120
    grep -qx "filled $records" "$log/fill.log" || { tail -5 "$log/fill.log" && exit 1; }
}

# figure FILE NAME
figure() { sed -n "s/^$2 //p" "$log/$1.log" | tail -1; }

# one STORE GUARANTEE INTERVAL ROUND
one() {
    local name=$1-$2-$4
    local -a arguments=(servers=$servers records=$records store=$1 guarantee=$2 interval=$3 id=$name dir="$run/$name")
    java_in host first-$name 512 io.everleaf.demo.Replay task=first "${arguments[@]}"
    gone first-$name 400 || failed "$name did not come to its last record"
    sleep 8
    java_in host again-$name 512 io.everleaf.demo.Replay task=again "${arguments[@]}"
    gone again-$name 200 || failed "$name did not start again"
    local rate=$(figure first-$name rate) replayed=$(figure again-$name replayed) pairs=$(figure again-$name pairs)
    printf '%-9s %-16s %7s ms %12s %12s %12s %10s %10s\n' "$1" "$2" "$3" "${rate:-none}" "${replayed:-none}" \
        "$(figure again-$name worked)" "$(figure again-$name running-ms)" "$(du -sm "$run/$name" | cut -f1)"
    [ "${pairs:-0}" -eq "$records" ] || failed "$name: ${pairs:-no} pairs at the end, not $records"
    # In thousandths of what comes in a second.
    local most=1200
    [ "$2" = at_least_once ] || most=$3
    if [ "$1" = everleaf ] && [ "${replayed:-$records}" -gt $((${rate:-0} * most / 1000)) ]; then
        failed "$name: ${replayed:-no figure} replayed, more than came in $most ms"
    fi
    kill_quietly again-$name
    rm -rf "${run:?}/$name"
}

kill_quietly() { ! alive "$1" || kill_now "$1"; }

begin
build
broker
printf '%-9s %-16s %10s %12s %12s %12s %10s %10s\n' store guarantee commits "records/s" replayed "read again" "RUNNING ms" "disk MB"
for round in $(seq "$rounds"); do
    for guarantee in "exactly_once_v2 100" "at_least_once 1000"; do
        for kind in everleaf rocksdb; do
            one $kind $guarantee $round
        done
    done
done
if [ -s "$log/failures" ]; then
    echo "FAILED:"
    sed 's/^/  - /' "$log/failures"
    exit 1
fi
echo OK
