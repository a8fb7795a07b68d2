#!/bin/sh
# Compares our workloads with YCSB's own core: fetches it from Maven Central, draws with it and with
# ours, and tests whether both draw alike. Needs a JDK 17, Maven and cargo.
#
#   research/bench/ycsb/check.sh          draws 2,000,000 picks and 500,000 operations of each
#   research/bench/ycsb/check.sh --keep   and keeps what YCSB drew as reference.txt, for the unit test
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
mvn -q -B -f "$here/pom.xml" dependency:build-classpath -Dmdep.outputFile="$out/classpath"
classpath=$(cat "$out/classpath")
version=$(echo "$classpath" | sed 's,.*/core-\([0-9.]*\)\.jar.*,\1,')
javac -cp "$classpath" -d "$out" "$here/Histogram.java"
java -cp "$out:$classpath" Histogram 2000000 500000 "$version" >"$out/drawn.txt"
cd "$here"
cargo run -q --release -p everleaf-bench -- ycsb-check "$out/drawn.txt"
if [ "${1-}" = --keep ]; then
    cp "$out/drawn.txt" "$here/reference.txt"
fi
