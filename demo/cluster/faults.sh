# What is done to the cluster: a function each. run.sh reads this file. Each ends when all is well again.

# A little load without a fault, so that a gap does not run into the next phase.
calm_down() { sleep 4; }

fault_app() {
    phase "kill -9 an application" 15
    kill_now app1
    sleep 12
    say "application 1 again"
    start_app 1
    settled 60
    calm_down
}

fault_broker() {
    local broker
    broker=$(leaders | sort -k3nr | sed -n '1s/^broker \([0-9]*\) .*/\1/p')
    [ -n "$broker" ] || return 1
    phase "kill -9 the leading broker" 10
    say "broker $broker leads $(leaders | sed -n "s/^broker $broker //p") partitions"
    kill_now broker$broker
    sleep 12
    say "broker $broker again"
    start_broker $broker
    wait_for 60 in_step || failed "broker $broker is not in step after 60 s"
    settled 60
    calm_down
}

fault_cut() {
    if [ $loopback = yes ]; then
        say "skipped: a cut link, without networks of their own"
        return
    fi
    phase "cut a link for 10 s"
    ip link set ${tag}a2 down
    sleep 10
    say "link again"
    ip link set ${tag}a2 up
    sleep 2
    settled 60
    calm_down
}

fault_stop() {
    phase "stop an application for 15 s"
    kill -STOP "${pids[app3]}"
    sleep 15
    say "application 3 goes on"
    kill -CONT "${pids[app3]}"
    sleep 2
    settled 60
    calm_down
}

# The state of application 2 moves to a small file system, and that is filled by something else.
fault_full() {
    local state=$run/state/app2
    phase "full disk of an application"
    stop app2
    gone app2 20 || return 1
    mv "$log/app2.log" "$log/app2-before.log"
    mv "$state" "$state.moved"
    mkdir "$state"
    echo "mount $state" >>"$made"
    if ! mount -t tmpfs -o size=64m tmpfs "$state" 2>/dev/null; then
        say "skipped: no right to mount a small file system"
        rmdir "$state"
        mv "$state.moved" "$state"
        start_app 2
        settled 60
        return
    fi
    cp -a "$state.moved/." "$state"
    rm -rf "$state.moved"
    start_app 2
    settled 60
    say "full: stores had $(du -sk "$state" | cut -f1) KiB of 64 MiB"
    cat /dev/zero >"$state/filler" 2>/dev/null
    sleep 15
    rm "$state/filler"
    say "room again; the threads of application 2 have ended $(grep -c '^+.* uncaught' "$log/app2.log") times for want of it"
    if ! alive app2; then
        say "application 2 has ended itself, because Streams was in disorder: it starts again"
        start_app 2
    fi
    settled 60
    calm_down
}

fault_all() {
    phase "kill -9 all applications" 15
    local i
    for i in 1 2 3 4; do ! alive app$i || kill -9 "${pids[app$i]}"; done
    for i in 1 2 3 4; do gone app$i 10; done
    # For the audit: what a kill leaves is exactly what some commit has left.
    for i in 1 2 3; do cp -a "$run/state/app$i" "$run/frozen/killed-app$i"; done
    for i in 1 2 3; do start_app $i; done
    settled 60
    calm_down
}

fault_join() {
    phase "a fourth application joins"
    local from=$(now)
    start_app 4
    if ! wait_for 90 answers_itself 4; then
        failed "the fourth application serves nothing after 90 s"
        return
    fi
    say "its first answer $(seconds $from) s after its start ($(field 4 first-answer-ms) ms of its own time)"
    settled 60
    say "restored $(field 4 restored-records) records for its tasks, $(field 4 standby-records) for standbys, $(field 4 restored-bytes) bytes in all; it took $(seconds $from) s"
    calm_down
}

answers_itself() { [ "$(field $1 first-answer-ms)" -gt 0 ]; }

fault_rolling() {
    phase "rolling restart of everything"
    local i
    for i in 1 2 3; do
        stop broker$i
        gone broker$i 40 || failed "broker $i did not end"
        start_broker $i
        wait_for 60 in_step || failed "broker $i is not in step after 60 s"
        say "broker $i has restarted"
    done
    for i in 1 2 3 4; do
        alive app$i || continue
        stop app$i
        gone app$i 30 || failed "application $i did not end"
        start_app $i
        settled 60
    done
    calm_down
}

# A task that ends with writes that no commit has ended, and goes on in the same folder.
fault_exception() {
    phase "an exception in a processor"
    local i rounds='1 2 3'
    [ "$mutant" -eq 0 ] || rounds='1 2 3 1 2 3'
    for i in $rounds; do
        curl -sf -m 5 "$(url $i)/fail?after=1" >/dev/null || failed "application $i does not answer"
        sleep 3
        settled 60
    done
    calm_down
}
