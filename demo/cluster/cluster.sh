# Networks, processes and what is waited for. run.sh reads this file.

tag=ev$$
net=10.77.$(($$ % 250 + 1))
declare -A pids=()
# Of another run that could not clean up: what it has made is in this file.
made=$top/made
java_options=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:-UsePerfData
    --add-opens java.base/java.nio=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED)
classes=$top/app/classes:$repo/target/java/everleaf-jni/everleaf-jni-0.1.0.jar:$repo/target/java/everleaf-kafka/everleaf-kafka-0.1.0.jar:$top/lib/*

now() { date +%s%3N; }

# seconds SINCE: with one digit behind the point, from a time in milliseconds.
seconds() {
    local tenths=$((($(now) - $1) / 100))
    echo "$((tenths / 10)).$((tenths % 10))"
}

say() { printf '%s %6s s  %s\n' "$(date +%T)" "$(seconds "$began")" "$*"; }

# failed TEXT: the run goes on, and ends with it.
failed() {
    say "FAILED: $*"
    echo "$*" >>"$log/failures"
}

event() { printf '%s\t%s\t%s\n' "$(now)" "$1" "$2" >>"$log/events"; }

# phase NAME [BAR]: what follows belongs to it; a partition may be without an answer for BAR seconds.
phase() {
    event "$1" "${2:-0}"
    say "== $1"
}

# wait_for SECONDS COMMAND…: until it succeeds.
wait_for() {
    local end=$(($(now) + $1 * 1000))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(now)" -lt $end ] || return 1
        sleep 0.2
    done
}

# --- the begin ---

# Only one run at a time, and nothing of one that could not clean up.
begin() {
    mkdir -p "$top"
    exec 9>"$top/lock"
    flock -n 9 || { echo "another run is going on in $top" && exit 1; }
    sweep
    rm -rf "$log" "$run"
    mkdir -p "$log" "$run"
    : >"$log/failures"
    began=$(now)
    trap 'cleanup' EXIT
    trap 'echo; say "interrupted"; exit 130' INT TERM
}

build() {
    say "builds"
    built PROFILE="${PROFILE:-release}" "$repo/bindings/java/run.sh" build
    built mvn -q -B -Dstyle.color=never -f "$here/app" compile
    built go build -C "$here/checker" -o "$top/checker" .
}

built() { env "$@" >>"$log/build.log" 2>&1 9>&- || { tail -20 "$log/build.log" && exit 1; }; }

# --- networks ---

make_networks() {
    if [ $loopback = no ] && ! { ip netns add $tag-try && ip netns del $tag-try; } 2>/dev/null; then
        loopback=yes
    fi
    if [ $loopback = yes ]; then
        say "no networks of their own here: all are on 127.0.0.1, and no link is cut"
        return
    fi
    echo "link ${tag}br" >>"$made"
    ip link add ${tag}br type bridge
    ip addr add $net.1/24 dev ${tag}br
    ip link set ${tag}br up
    local i
    for i in 1 2 3; do make_network b$i $net.1$i; done
    for i in 1 2 3 4; do make_network a$i $net.2$i; done
}

# make_network NAME ADDRESS
make_network() {
    echo "netns $tag-$1" >>"$made"
    ip netns add $tag-$1
    ip link add $tag$1 type veth peer name $tag$1p
    ip link set $tag$1 master ${tag}br up
    ip link set $tag$1p netns $tag-$1
    ip -n $tag-$1 addr add $2/24 dev $tag$1p
    ip -n $tag-$1 link set $tag$1p up
    ip -n $tag-$1 link set lo up
}

broker_host() { [ $loopback = yes ] && echo 127.0.0.1 || echo $net.1$1; }
broker_port() { [ $loopback = yes ] && echo 1909$1 || echo 9092; }
quorum_port() { [ $loopback = yes ] && echo 1919$1 || echo 9093; }
app_host() { [ $loopback = yes ] && echo 127.0.0.1 || echo $net.2$1; }
app_port() { [ $loopback = yes ] && echo 1808$1 || echo 8081; }
url() { echo "http://$(app_host $1):$(app_port $1)"; }

# --- processes ---

# java_in NETWORK NAME MEGABYTES CLASS ARGUMENTS…: starts a program; its output goes to a log of its name.
java_in() {
    local network=$1 name=$2 heap=$3
    shift 3
    local -a enter=()
    [ $loopback = yes ] || [ "$network" = host ] || enter=(ip netns exec $tag-$network)
    setsid "${enter[@]}" java -Xmx${heap}m "${java_options[@]}" -cp "$classes" "$@" >>"$log/$name.log" 2>&1 </dev/null 9>&- &
    pids[$name]=$!
    disown $!
    echo "pid ${pids[$name]} $(started ${pids[$name]})" >>"$made"
}

# When a process was started, in ticks: a number may belong to another process by now.
started() { cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null; }

# Zombies count as gone: their parent has yet to look.
alive() { [ -n "${pids[$1]:-}" ] && kill -0 "${pids[$1]}" 2>/dev/null && ! grep -q '^State:.Z' "/proc/${pids[$1]}/status" 2>/dev/null; }
is_gone() { ! alive "$1"; }
gone() { wait_for "$2" is_gone "$1"; }
stop() { ! alive "$1" || kill "${pids[$1]}"; }
kill_now() {
    kill -9 "${pids[$1]}"
    gone "$1" 10
}

make_brokers() {
    local i voters=
    servers=
    for i in 1 2 3; do
        voters=$voters,$i@$(broker_host $i):$(quorum_port $i)
        servers=$servers,$(broker_host $i):$(broker_port $i)
    done
    servers=${servers#,}
    for i in 1 2 3; do
        cat >"$run/broker$i.properties" <<X
process.roles=broker,controller
node.id=$i
controller.quorum.voters=${voters#,}
listeners=PLAINTEXT://$(broker_host $i):$(broker_port $i),CONTROLLER://$(broker_host $i):$(quorum_port $i)
controller.listener.names=CONTROLLER
log.dirs=$run/broker$i
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=6
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
controller.quorum.fetch.timeout.ms=1500
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=5000
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=8388608
X
    done
    java_in host format 128 io.everleaf.demo.Format "$run"/broker{1,2,3}.properties
    gone format 60
    grep -c '^Formatting' "$log/format.log" | grep -qx 3 || { tail -5 "$log/format.log" && failed "the brokers' folders were not formatted" && exit 1; }
}

start_broker() { java_in b$1 broker$1 320 kafka.Kafka "$run/broker$1.properties"; }

start_app() {
    mkdir -p "$run/state/app$1"
    java_in a$1 app$1 192 io.everleaf.demo.App servers="$servers" dir="$run/state/app$1" host=$(app_host $1) port=$(app_port $1) \
        store=$store mutant=$mutant standbys=$standbys
}

# --- what is waited for ---

status() { curl -sf -m 2 "$(url $1)/status"; }

# field N NAME: of an application's status.
field() { status $1 | sed -n "s/^$2 //p"; }

# The first or last application that lives.
first_app() { for i in 1 2 3 4; do alive app$i && echo $i && return; done; }
last_app() { for i in 4 3 2 1; do alive app$i && echo $i && return; done; }

# All applications that live are running, and have six tasks and their standbys between them.
is_settled() {
    local i text active=0 standby=0 count=0
    for i in 1 2 3 4; do
        alive app$i || continue
        count=$((count + 1))
        text=$(status $i) || return 1
        grep -q '^state RUNNING' <<<"$text" || return 1
        active=$((active + $(sed -n 's/^active //p' <<<"$text" | wc -w)))
        standby=$((standby + $(sed -n 's/^standby //p' <<<"$text" | wc -w)))
    done
    local copies=$((standbys < count ? standbys : count - 1))
    # More, if an application warms up for a task that it shall have later.
    [ $active -eq 6 ] && [ $standby -ge $((6 * copies)) ]
}

# settled SECONDS: waits for it.
settled() {
    local from=$(now)
    if wait_for "$1" is_settled; then
        say "all run after $(seconds $from) s"
    else
        failed "applications do not all run within $1 s"
        for i in 1 2 3 4; do ! alive app$i || say "app$i: $(status $i | tr '\n' ' ')"; done
    fi
}

leaders() { curl -sf -m 15 "$(url $(first_app))/leaders"; }
in_step() { leaders | grep -qx 'under 0'; }

# --- memory ---

# The sum of what all processes have for themselves, with their share of what they share, and of the tmpfs; the most of it.
watch_memory() {
    (
        trap - EXIT INT TERM
        most=0
        while sleep 2; do
            sum=$(df -k --output=used "$run/state/app2" -t tmpfs 2>/dev/null | tail -1)
            sum=${sum//[!0-9]/}
            for pid in $(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$made"); do
                pss=$(sed -n 's/^Pss: *\([0-9]*\) kB/\1/p' "/proc/$pid/smaps_rollup" 2>/dev/null)
                sum=$((${sum:-0} + ${pss:-0}))
            done
            [ $((sum / 1024)) -le $most ] || { most=$((sum / 1024)) && echo $most >"$log/memory"; }
        done
    ) 9>&- &
    pids[memory]=$!
    disown $!
    echo "pid ${pids[memory]} $(started ${pids[memory]})" >>"$made"
}

# --- the end ---

# Ends and removes what the file of made things lists, and nothing else.
sweep() {
    [ -e "$made" ] || return 0
    local kind name time
    while read -r kind name time; do
        [ "$kind" != pid ] || [ "$(started "$name")" != "$time" ] || kill -9 "$name" 2>/dev/null
    done <"$made"
    sleep 0.3
    while read -r kind name time; do
        case $kind in
        mount) ! mountpoint -q "$name" || umount "$name" || umount -l "$name" ;;
        netns) ip netns del "$name" 2>/dev/null ;;
        link) ip link del "$name" 2>/dev/null ;;
        esac
    done <"$made"
    rm -f "$made"
}

cleanup() {
    trap - EXIT
    trap '' INT TERM
    sweep
    rm -rf "$run"
}

stay_up() {
    local i pairs=()
    for i in 1 2 3; do pairs+=("127.0.0.1:808$i=$(app_host $i):$(app_port $i)"); done
    settled 90
    setsid "$top/checker" forward "${pairs[@]}" >>"$log/forward.log" 2>&1 </dev/null 9>&- &
    pids[forward]=$!
    disown $!
    echo "pid ${pids[forward]} $(started ${pids[forward]})" >>"$made"
    cat <<X
  curl -X PUT -d 'two chairs' http://127.0.0.1:8081/put/order-17
  curl http://127.0.0.1:8082/get/order-17
  curl 'http://127.0.0.1:8083/range?from=order-&to=order-99&limit=10'
  curl http://127.0.0.1:8081/status
Brokers: $servers. Ctrl-C ends it.
X
    while sleep 1; do :; done
}
