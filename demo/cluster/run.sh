#!/bin/bash
# Three brokers and three applications of Kafka Streams with Everleaf's store, each in a network of its own on this machine. They
# are killed, cut off, stopped and starved in turn, while 64 clients read and write; then every answer is checked.
#
#   run.sh                     the run: 8 minutes at most, 4 GiB; ends with a table and OK, or with what failed
#   run.sh up                  starts the cluster and leaves it, until Ctrl-C, with HTTP at 127.0.0.1:8081, 8082, 8083
#   run.sh build               only builds
#
#   --store rocksdb            RocksDB's store in place of Everleaf's
#   --mutant N                 a store with a defect, and only the faults that show it; ends with 0 if the checks find it.
#                              1 drops one write in 1,000, 2 commits an offset before its data, 3 keeps at a close what no
#                              commit has ended
#   --faults A,B,…             only these: app broker cut stop full all join rolling exception
#   --standbys N               copies of each store beside the one that is used; 1 unless set
#   --clients N                64 unless set
#   --calm SECONDS             how long the phase without a fault lasts; 25 unless set
#   --loopback                 no networks of their own, and so no cut
#
# All that is made is under target/cluster of the repository. Logs and the history of the last run stay in target/cluster/log;
# networks, folders of state and processes do not stay.
set -u

here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
top=$repo/target/cluster
run=$top/run
log=$top/log
store=everleaf mutant=0 standbys=1 clients=64 calm=25 loopback=no task=run
faults=app,broker,cut,stop,full,all,join,rolling,exception
given_faults=

usage() {
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    up | build | run) task=$1 ;;
    --loopback) loopback=yes ;;
    --store | --mutant | --faults | --standbys | --clients | --calm)
        [ $# -ge 2 ] || usage
        case $1 in
        --store) store=$2 ;;
        --mutant) mutant=$2 ;;
        --faults) given_faults=$2 ;;
        --standbys) standbys=$2 ;;
        --clients) clients=$2 ;;
        --calm) calm=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done
case $store in everleaf | rocksdb) ;; *) usage ;; esac
case $mutant in
0) ;;
1) faults=app ;;
2) faults=app,all ;;
3) faults=exception ;;
*) usage ;;
esac
faults=${given_faults:-$faults}

. "$here/cluster.sh"
. "$here/faults.sh"

# Starts everything, and waits for the first answer of each application.
start_cluster() {
    make_networks
    make_brokers
    for i in 1 2 3; do start_broker $i; done
    for i in 1 2 3; do start_app $i; done
}

# The load has ended. A standby takes over, and serves what the one before it has served; then the folders are audited.
finish() {
    phase "last reads"
    touch "$run/stop"
    gone client 120 || failed "the client did not end"
    event end 0
    say "== a standby is promoted"
    local one=$(first_app) other=$(last_app)
    curl -sf -m 20 "$(url $one)/range?limit=100000" >"$log/served-before" || failed "application $one gave no range"
    say "kill -9 application $one, and its standbys are promoted"
    kill_now app$one
    settled 40
    curl -sf -m 20 "$(url $other)/range?limit=100000" >"$log/served" || failed "application $other gave no range"
    cmp -s "$log/served-before" "$log/served" || failed "promoted standbys serve something else than before"
    say "promoted standbys serve $(wc -l <"$log/served") keys"
    for i in 1 2 3 4; do stop app$i; done
    for i in 1 2 3 4; do gone app$i 30 || failed "application $i did not end"; done
    audit
}

audit() {
    local folders= folder
    for folder in "$run"/state/* "$run"/frozen/*; do
        [ ! -d "$folder/everleaf-cluster" ] || folders=$folders:$folder
    done
    java_in host audit 256 io.everleaf.demo.Audit servers="$servers" store="$store" changelog="$log/changelog" folders="${folders#:}"
    gone audit 60 || failed "the audit did not end"
    grep -E 'DIFFERENT' "$log/audit.log"
    say "compared with their changelogs: $(grep '^stores' "$log/audit.log")"
    grep -q '^stores .* bad 0$' "$log/audit.log" || failed "a store is not what its changelog says: $(grep -c DIFFERENT "$log/audit.log") stores, see audit.log"
}

# A mutant is a run that has to fail, by wrong data: a run that was only slow has not found it.
verdict() {
    "$top/checker" check "$log" | tee "$log/verdict"
    local code=${PIPESTATUS[0]}
    if [ "$code" -eq 2 ]; then
        echo "FAILED before there was anything to check:"
        sed 's/^/  - /' "$log/failures"
        return 1
    fi
    [ "$mutant" -ne 0 ] || return "$code"
    if grep -qE '^  - (not linearizable|[0-9]+ acknowledged|[0-9]+ writes|[0-9]+ keys|a store is not)' "$log/verdict"; then
        echo "mutant $mutant: found"
        return 0
    fi
    echo "mutant $mutant: NOT found"
    return 1
}

start_load() {
    java_in host client 256 io.everleaf.demo.Client servers="$servers" clients="$clients" keys=2000 history="$log/history" stop="$run/stop"
    wait_for 90 grep -q '^answers: 1$' "$log/client.log" || { failed "no answer within 90 s" && return 1; }
    say "first answer"
    settled 60
    # The virtual machines compile what they run most.
    sleep 8
}

run_faults() {
    phase "no fault"
    sleep "$calm"
    local fault
    for fault in ${faults//,/ }; do
        fault_"$fault" || failed "fault $fault"
    done
}

begin
mkdir -p "$run/state" "$run/frozen"
: >"$log/events"
build
[ "$task" != build ] || exit 0
began=$(now)
say "store $store, mutant $mutant, $standbys standbys, $clients clients"
start_cluster
if [ "$task" = up ]; then
    stay_up
    exit 0
fi
watch_memory
start_load && run_faults && finish
verdict
code=$?
say "ends after $((($(now) - began) / 1000)) s"
exit $code
