#!/bin/sh
# YCSB 0.17.0, workloads A to F, on Everleaf and on RocksDB 10.1.3: the load, and then A, B, C, F, D and E, each on one store and
# then on the other. It prints a table of thousands of operations a second, and ends with 1 if one operation has failed.
#
#   run.sh [RECORDS [OPERATIONS]]     200000 each unless set; E has a fifth of the operations
#
# THREADS is 2 unless set. Rows have 10 fields of 100 bytes. Both stores may keep 512 MiB of what they read, and neither waits for
# the disk in a write.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)/target/java
records=${1:-200000}
operations=${2:-$records}
threads=${THREADS:-2}
case $records$operations$threads in *[!0-9]*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" && exit 2 ;; esac

"$here/../run.sh" build -pl ycsb -am >/dev/null
classpath=$top/everleaf-ycsb/classes:$(cat "$top/everleaf-ycsb/classpath")
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
trap 'exit 130' INT TERM

# client STORE NAME ARGUMENTS: prints thousands of operations a second; $run/failed has what has failed.
client() {
    store=$1 name=$2
    shift 2
    mkdir -p "$run/$store"
    java -XX:+UseSerialGC -Xmx1g -cp "$classpath" site.ycsb.Client -db "io.everleaf.ycsb.${store}Client" -threads "$threads" \
        -p store.path="$run/$store" -p recordcount="$records" -p workload=site.ycsb.workloads.CoreWorkload \
        "$@" >"$run/out" 2>"$run/err" || echo "$store $name: the program has failed" >>"$run/failed"
    grep -E 'Return=(ERROR|NOT_FOUND|UNEXPECTED)|FAILED\], Operations' "$run/out" | sed "s/^/$store $name: /" >>"$run/failed" || true
    awk -F, '/OVERALL.*Throughput/ { printf "%.2f", $3 / 1000 }' "$run/out"
}

# both NAME BAR ARGUMENTS: a line of the table
both() {
    name=$1 bar=$2
    shift 2
    everleaf=$(client Everleaf "$name" "$@")
    rocks=$(client Rocks "$name" "$@")
    awk -v name="$name" -v bar="$bar" -v e="${everleaf:-0}" -v r="${rocks:-0}" 'BEGIN {
        ratio = r > 0 ? e / r : 0
        met = bar == "" ? "" : (ratio >= bar ? "yes" : "NO")
        printf "| %s | %s | %s | %.2f | %s | %s |\n", name, e, r, ratio, bar, met
    }'
}

: >"$run/failed"
echo '| workload | Everleaf, k op/s | RocksDB | ratio | bar | met |'
echo '|---|---|---|---|---|---|'
both load '' -load
[ ! -s "$run/failed" ] || { cat "$run/failed" "$run/err" && exit 1; }
set -- -t -p requestdistribution=zipfian -p operationcount="$operations"
both A 1.5 "$@" -p readproportion=0.5 -p updateproportion=0.5
both B 1.5 "$@" -p readproportion=0.95 -p updateproportion=0.05
both C 1.5 "$@" -p readproportion=1 -p updateproportion=0
both F 1.5 "$@" -p readproportion=0.5 -p updateproportion=0 -p readmodifywriteproportion=0.5
both D 1.5 "$@" -p readproportion=0.95 -p updateproportion=0 -p insertproportion=0.05 -p requestdistribution=latest
both E 1.0 "$@" -p operationcount=$((operations / 5)) -p readproportion=0 -p updateproportion=0 -p scanproportion=0.95 \
    -p insertproportion=0.05 -p maxscanlength=100
[ ! -s "$run/failed" ] || { cat "$run/failed" "$run/err" && exit 1; }
echo '0 operations have failed'
