#!/usr/bin/env bash
# Tests the Dax medium on a real DAX file system, in a virtual machine, through a power cut.
#
#   ci/dax_qemu.sh
#
# Not part of the default tests: it takes some minutes, and 300 MB of disk while it runs. It needs an
# amd64 Debian with cargo; QEMU, kernel, busybox and mkfs.ext4 are Debian packages, fetched into a
# temporary directory and not installed. Ends with 0 if all is well, with 77 if something that it
# needs is not available (skipped), else with 1 and the machine's console.
#
# The kernel is told to take 128 MiB of its memory for persistent memory (memmap=128M!256M). That
# gives /dev/pmem0, which carries ext4 with -o dax and grants MAP_SYNC. The machine's memory is a file
# of the host, so it outlives the machine: killing QEMU is a power cut that keeps the persistent
# memory and loses all else, the guest's page cache and kernel included.
#
#   first boot   makes the file system; runs the tests dax, dax_kill and hybrid_kill (BD+Tree) on it, not
#                emulated; then the example dax_counter appends records, until the machine is killed
#   second boot  mounts the file system as the cut left it: dax_counter must find each record
#                that it had called durable; then a clean end, a mount, and once more
#
# What this cannot show is a missing flush: QEMU has no cache that could lose stores, so the machine
# behaves like one with eADR. The crash images of everleaf-crash-check are for that.
set -euo pipefail

BOOT_SECONDS=600 # the limit for one boot; emulated without hardware support, it takes about 30
CUT_AT=3000      # records that must be durable before the power is cut

repo=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
qemu_pid=
cleanup() {
    if [ -n "$qemu_pid" ]; then
        kill -KILL "$qemu_pid" 2>/dev/null || true
        wait "$qemu_pid" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

skip() {
    echo "skipped: $*" >&2
    exit 77
}
fail() {
    echo "failed: $*"
    for log in "$work"/console-*; do
        [ ! -e "$log" ] || { echo "--- ${log##*/}, its end"; tail -n 60 "$log"; }
    done
    exit 1
}

# Where the packages are unpacked that are not installed.
root=$work/root
libraries=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu

fetch() {
    [ "$(uname -m)" = x86_64 ] || skip "this is not an x86-64 machine"
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "this is not a Debian"
    local kernel
    kernel=$(apt-cache depends linux-image-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$kernel" ] || skip "apt knows no linux-image-amd64 (has apt-get update been run?)"
    mkdir -p "$work/debs/partial" "$root"
    cd "$work/debs"
    apt-get download -qq "$kernel" >"$work/apt" 2>&1 ||
        skip "$kernel cannot be fetched: $(tail -n 1 "$work/apt")"
    # With the libraries that are missing here; what is installed already is used from there.
    apt-get install -qq -y --download-only --no-install-recommends \
        -o Dir::Cache::archives="$work/debs" -o Debug::NoLocking=1 \
        qemu-system-x86 busybox-static e2fsprogs >"$work/apt" 2>&1 ||
        skip "QEMU, busybox or e2fsprogs cannot be fetched: $(tail -n 1 "$work/apt")"
    for deb in *.deb; do
        dpkg -x "$deb" "$root"
    done
    cd "$work"
    rm -r "$work/debs"
}

# The first of these files that is there.
first() {
    local candidate
    for candidate; do
        if [ -e "$candidate" ]; then
            echo "$candidate"
            return
        fi
    done
    skip "none of these is there: $*"
}

# Copies a program into the initramfs, with the libraries that it is linked to.
install_program() { # FILE NAME
    cp "$1" "$initrd/bin/$2"
    local library place
    for library in $(LD_LIBRARY_PATH=$libraries ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
        place=$initrd${library#"$root"}
        mkdir -p "${place%/*}"
        cp -L "$library" "$place"
    done
}

# Modules in the order of their dependencies; one that is missing is built into the kernel.
MODULES="crc16 crc32c_generic crc32c-intel libcrc32c mbcache jbd2 ext4 libnvdimm nd_btt nd_pmem nd_e820"

build_initrd() {
    initrd=$work/initrd
    mkdir -p "$initrd"/{bin,dev,proc,sys,mnt,tmp,modules}
    local busybox mke2fs name module
    busybox=$(first "$root/bin/busybox" "$root/usr/bin/busybox" /bin/busybox)
    mke2fs=$(first "$root/sbin/mke2fs" "$root/usr/sbin/mke2fs" /sbin/mke2fs)
    install_program "$busybox" busybox
    install_program "$mke2fs" mkfs.ext4
    for name in $MODULES; do
        module=$(find "$root" -path '*/lib/modules/*' -name "$name.ko*" -print -quit)
        case $module in
            "") continue ;;
            *.xz) xz -dc "$module" >"$initrd/modules/$name.ko" ;;
            *) cp "$module" "$initrd/modules/$name.ko" ;;
        esac
        echo "$name" >>"$initrd/modules/order"
    done
    cd "$repo"
    local messages program
    messages=$(cargo build --quiet --release -p everleaf-file --example dax_counter \
        --test dax --test dax_kill --message-format=json-render-diagnostics)
    messages+=$(cargo build --quiet --release -p everleaf-tree --features heavy --test hybrid_kill \
        --message-format=json-render-diagnostics)
    for name in dax dax_kill dax_counter hybrid_kill; do
        program=$(grep "\"name\":\"$name\"" <<<"$messages" |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
        install_program "$program" "$name"
    done
    guest_init >"$initrd/init"
    chmod +x "$initrd/init"
    (cd "$initrd" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) \
        >"$work/initrd.gz"
}

# What runs in the machine, as its first process.
guest_init() {
    cat <<'GUEST'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
end() {
    echo "everleaf: $*"
    sync
    poweroff -f
}
for name in $(cat /modules/order); do
    insmod /modules/$name.ko || echo "insmod $name failed"
done
mount_dax() {
    mount -t ext4 -o dax /dev/pmem0 /mnt && grep ' /mnt .*dax' /proc/mounts
}
# Drivers are probed in the background.
for i in $(seq 100); do
    [ -b /dev/pmem0 ] || sleep 0.1
done
[ -b /dev/pmem0 ] || { grep -i persist /proc/iomem; lsmod; end "FAILED: no /dev/pmem0"; }
if grep -q everleaf_boot=first /proc/cmdline; then
    mkfs.ext4 -q -F -b 4096 /dev/pmem0 || end "FAILED: mkfs"
    mount_dax || end "FAILED: mount"
    export EVERLEAF_DAX=1 TMPDIR=/mnt RUST_BACKTRACE=0
    dax --include-ignored --test-threads=2 || end "FAILED: the test dax"
    dax_kill || end "FAILED: the test dax_kill"
    hybrid_kill || end "FAILED: the test hybrid_kill"
    ! dax_counter /tmp/pool || end "FAILED: a file that is not on DAX was accepted"
    dax_counter /mnt/pool 5 || end "FAILED: dax_counter"
    echo "everleaf: counting"
    dax_counter /mnt/pool 1000000000
    end "FAILED: dax_counter ended"
else
    mount_dax || end "FAILED: mount after the cut"
    dax_counter /mnt/pool 7 | sed 's/^whole/after the cut: whole/' || end "FAILED: after the cut"
    umount /mnt
    mount_dax || end "FAILED: mount after a clean end"
    dax_counter /mnt/pool 0 | sed 's/^whole/after a clean end: whole/'
    end "second boot done"
fi
GUEST
}

# Starts the machine; its memory is the same file each time.
boot() { # first|second
    console=$work/console-$1
    : >"$console"
    local qemu kernel
    qemu=$(first "$root/usr/bin/qemu-system-x86_64" /usr/bin/qemu-system-x86_64)
    kernel=$(first "$root"/boot/vmlinuz-*)
    LD_LIBRARY_PATH=$libraries "$qemu" \
        -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" \
        -L /usr/share/qemu -L /usr/share/seabios -accel tcg -cpu max -smp 2 -m 1G \
        -object memory-backend-file,id=ram,size=1G,mem-path="$work/memory",share=on \
        -machine q35,memory-backend=ram \
        -kernel "$kernel" -initrd "$work/initrd.gz" \
        -append "console=ttyS0 quiet panic=-1 nokaslr memmap=128M!256M everleaf_boot=$1" \
        -nodefaults -no-reboot -display none -serial file:"$console" \
        >"$work/qemu" 2>&1 </dev/null &
    qemu_pid=$!
}

# Waits until the console shows a line, or fails with the machine.
await() { # PATTERN
    local start=$SECONDS
    until grep -q "$1" "$console"; do
        ! grep -q 'everleaf: FAILED' "$console" || fail "$(grep 'everleaf: FAILED' "$console")"
        kill -0 "$qemu_pid" 2>/dev/null || fail "the machine ended: $(cat "$work/qemu")"
        [ $((SECONDS - start)) -lt "$BOOT_SECONDS" ] || fail "no '$1' in $BOOT_SECONDS seconds"
        sleep 0.2
    done
}

number() { # PREFIX: the number behind its last whole line
    tr -d '\r' <"$console" | sed '$d' | sed -n "s/^$1 \([0-9]*\)\$/\1/p" | tail -n 1
}

fetch
build_initrd
truncate -s 1G "$work/memory"

boot first
await "everleaf: counting"
grep '^test result: ' "$console"
echo "tests on DAX: passed after $SECONDS s"
await "^durable $CUT_AT"
kill -KILL "$qemu_pid"
wait "$qemu_pid" 2>/dev/null || true
qemu_pid=
acknowledged=$(number durable)
echo "power cut: record $acknowledged was durable"

boot second
await "everleaf: second boot done"
wait "$qemu_pid" || true
qemu_pid=
after_cut=$(number "after the cut: whole")
after_end=$(number "after a clean end: whole")
grep -q 'found, not closed' "$console" || fail "the cut pool was not found, or found closed"
grep -q 'found, clean' "$console" || fail "the closed pool was not found clean"
[ "${after_cut:-0}" -ge "$acknowledged" ] || fail "record $acknowledged was durable, ${after_cut:-none} is there"
[ "${after_end:-0}" -eq $((after_cut + 7)) ] || fail "${after_end:-none} records after a clean end"
echo "second boot: $after_cut records after the cut, $after_end after a clean end"
echo "passed after $SECONDS s"
