#!/bin/sh
# Builds the Java library and runs its tests. All that is made is under target/java of the repository.
#
#   run.sh test [ARGS]     lints, the native library, the jars, and all tests; ARGS go to Maven
#   run.sh build           the native library and the jars, without tests
#   run.sh kill [ROUNDS]   kill -9 of a program, and of a store of Kafka Streams, 100 times each unless it says
#                          otherwise
#   run.sh bench [PAIRS [ROUNDS]]
#                          the stores of Kafka Streams beside those of RocksDB, 500,000 pairs and 5 rounds unless it says
#                          otherwise
#   run.sh many [STORES [ROUNDS]]
#                          so many stores in one virtual machine, 300 and 3 rounds unless it says otherwise
#
# PROFILE is the profile of Cargo: `release` unless it says `quick`. Ends with 77, and says what is missing, if there is no
# JDK 17 or later, or no Maven.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)/target/java
profile=${PROFILE:-release}
cd "$here"
mkdir -p "$top"

missing=
command -v javac >/dev/null 2>&1 || missing="$missing, javac (a JDK, 17 or later)"
command -v mvn >/dev/null 2>&1 || missing="$missing, mvn (Maven, 3.8 or later)"
command -v cargo >/dev/null 2>&1 || missing="$missing, cargo (Rust, 1.90 or later)"
if [ -z "$missing" ]; then
    version=$(javac -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/')
    [ "${version:-0}" -ge 17 ] || missing=", a JDK of version 17 or later: javac is of version $version"
fi
[ -z "$missing" ] || { echo "skipped: there is no ${missing#, }" && exit 77; }

# The native library, where the jar takes it from.
natives() {
    (cd native && CARGO_TARGET_DIR="$top/build" cargo build -q --locked --profile "$profile" ${JOBS:+-j "$JOBS"})
    folder=$top/native/META-INF/native/linux-$(uname -m)
    mkdir -p "$folder"
    cp "$top/build/$profile/libeverleaf_jni.so" "$folder/"
    ls -l "$folder/libeverleaf_jni.so"
}

task=${1:-test}
[ $# -eq 0 ] || shift
case $task in
test)
    (
        cd native
        cargo fmt --check
        CARGO_TARGET_DIR="$top/build" cargo clippy -q --locked ${JOBS:+-j "$JOBS"} -- -D warnings
    )
    natives
    rm -rf "$top"/*/surefire-reports
    mvn -q -B -Dstyle.color=never verify "$@"
    # Surefire says nothing if all is well and it is to be quiet.
    for report in "$top"/*/surefire-reports/*.txt; do
        [ ! -e "$report" ] || grep 'Tests run' "$report"
    done
    ;;
build)
    natives
    mvn -q -B -Dstyle.color=never -DskipTests package "$@"
    ls -l "$top"/*/*.jar
    ;;
kill)
    natives
    rounds=${1:-100}
    mvn -q -B -Dstyle.color=never verify -Dtest=KillTest,StoreKillTest -Dsurefire.failIfNoSpecifiedTests=false -Deverleaf.kill.rounds="$rounds"
    ;;
bench | many)
    natives
    mvn -q -B -Dstyle.color=never -P"$task" -pl everleaf-kafka-bench -am -Deverleaf.bench.arguments="$*" verify
    ;;
*)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"
    exit 2
    ;;
esac
