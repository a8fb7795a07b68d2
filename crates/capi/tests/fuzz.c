/*
 * Bytes as a sequence of calls: any function, with any of the handles that there are, in any order, also after a free of
 * what it came from and after a close. Nothing may crash, each code is a known one, and what is given agrees with what other
 * calls give. `cargo xtask capi fuzz` runs it under AddressSanitizer with fuzz_driver.c; a handle that was freed is never
 * used again, for that a program must not do.
 */
#include "everleaf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s; the last failure was %d, %s\n", __FILE__,          \
                    __LINE__, #condition, everleaf_last_code(), everleaf_last_message());          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { SLOTS = 3, KINDS = 8, OPERATIONS = 400, ROOM = 5000 };

/* Handles of one kind, some of which are NULL. */
static everleaf_db *dbs[SLOTS];
static everleaf_tree *trees[SLOTS];
static everleaf_cursor *cursors[SLOTS];
static everleaf_scan *scans[SLOTS];
static everleaf_batch *batches[SLOTS];
static everleaf_txn *txns[SLOTS];
static everleaf_snapshot *snapshots[SLOTS];
static everleaf_writer *writers[SLOTS];

static const uint8_t *input, *input_end;

static unsigned byte(void) { return input < input_end ? *input++ : 0; }
static unsigned below(unsigned n) { return byte() % n; }

/* A code that the header has. */
static int known(int code) {
    EXPECT(strcmp(everleaf_code_name(code), "unknown") != 0);
    EXPECT(code != EVERLEAF_PANIC && code != EVERLEAF_CORRUPT && code != EVERLEAF_FORKED);
    EXPECT(code >= 0 || (everleaf_last_code() == code && everleaf_last_message()[0] != 0));
    return code;
}

/* Reads all of the bytes, so that a tool sees whether they are there. */
static void touch(const void *bytes, size_t len) {
    static volatile unsigned sum;
    for (size_t i = 0; i < len; i++) sum += ((const uint8_t *)bytes)[i];
}

struct bytes {
    const void *at;
    size_t len;
};

static char long_key[65540], long_value[70000];

/* One of a few keys, or one that is not allowed. */
static struct bytes key(void) {
    static char keys[4][8];
    static unsigned next;
    unsigned choice = byte();
    char *text = keys[next++ % 4];
    if (choice == 255) return (struct bytes){NULL, 5};
    if (choice == 254) return (struct bytes){long_key, 65537};
    if (choice == 253) return (struct bytes){long_key, 65536};
    if (choice == 252) return (struct bytes){NULL, 0};
    if (choice == 251) return (struct bytes){text, (size_t)-1};
    int len = sprintf(text, "%u", choice % 64);
    return (struct bytes){text, (size_t)len};
}

static struct bytes value(void) {
    unsigned choice = byte();
    if (choice == 255) return (struct bytes){NULL, 1};
    if (choice > 250) return (struct bytes){long_value, 300u * choice - 8000};
    if (choice > 200) return (struct bytes){long_value + choice, 20u * choice};
    return (struct bytes){long_value + choice, choice % 120};
}

static const char *name(void) {
    static const char *const names[] = {"a", "b", "c", "", "\xff", NULL};
    unsigned choice = byte();
    return names[choice > 250 ? 3 + choice % 3 : choice % 3];
}

/* Bytes that were taken are whole. */
static void taken(int code, void *bytes, size_t len) {
    EXPECT((bytes != NULL) == (known(code) == EVERLEAF_OK));
    touch(bytes, len);
    everleaf_bytes_free(bytes);
}

static void open_one(unsigned at) {
    everleaf_options *options = everleaf_options_new();
    known(everleaf_options_background(options, (int)below(2)));
    known(everleaf_options_manual_epochs(options, (int)below(2)));
    known(everleaf_options_memory(options, 1u << (16 + below(5))));
    known(everleaf_options_page_bytes(options, 256u << below(8)));
    known(everleaf_options_compression(options, (int)below(3)));
    known(everleaf_options_durability(options, (int)below(4)));
    known(everleaf_options_max_bytes(options, 1u << 24));
    known(everleaf_options_snapshot_memory(options, 1u << below(24)));
    known(everleaf_options_transaction_memory(options, 1u << (16 + below(6))));
    known(everleaf_options_storage(options, below(16) == 0 ? 7 : 0));
    everleaf_db_free(dbs[at]);
    int code = known(everleaf_open_in_memory(below(4) == 0 ? NULL : options, &dbs[at]));
    EXPECT((dbs[at] != NULL) == (code == EVERLEAF_OK));
    everleaf_options_free(options);
}

static void of_pool(everleaf_db *db, unsigned at) {
    uint64_t a, b;
    size_t len;
    everleaf_stats stats = {0};
    switch (below(16)) {
    case 0: known(below(2) ? everleaf_sync(db) : everleaf_end_epoch(db, below(2) ? &a : NULL)); break;
    case 1: known(everleaf_checkpoint(db)); break;
    case 2: known(everleaf_compact(db, &a, NULL)); break;
    case 3:
        stats.size = below(4) == 0 ? byte() : sizeof stats;
        if (stats.size <= sizeof stats) known(everleaf_db_stats(db, &stats));
        break;
    case 4:
        if (known(everleaf_epoch(db, &a)) == 0) known(everleaf_wait_durable(db, a, (int)below(2)));
        break;
    case 5: known(everleaf_durable_epoch(db, &b)); break;
    case 6: known(everleaf_tree_drop(db, name())); break;
    case 7: known(everleaf_tree_rename(db, name(), name())); break;
    case 8: {
        everleaf_names *names;
        const char *text;
        EXPECT((known(everleaf_tree_names(db, &names)) == 0) == (names != NULL));
        for (size_t i = 0; i < everleaf_names_len(names); i++) {
            EXPECT(everleaf_names_at(names, i, &text, &len) == 0 && strlen(text) == len);
        }
        known(everleaf_names_at(names, everleaf_names_len(names), &text, &len));
        everleaf_names_free(names);
        break;
    }
    case 9: {
        everleaf_damages *damages;
        known(everleaf_check(db, &damages));
        EXPECT(everleaf_damages_len(damages) == 0);
        known(everleaf_damages_at(damages, byte(), &a, NULL));
        everleaf_damages_free(damages);
        break;
    }
    case 10:
        if (below(4) == 0) known(everleaf_close(db));
        break;
    case 11:
        if (below(8) == 0) known(everleaf_abandon(db));
        break;
    case 12:
        if (below(4) == 0) open_one(at);
        break;
    default: known(everleaf_backup(db, "/nowhere/at/all", &a));
    }
}

static void make(everleaf_db *db, everleaf_tree *tree, unsigned at) {
    switch (below(KINDS)) {
    case 0: everleaf_tree_free(trees[at]); known(everleaf_tree_create(db, name(), &trees[at])); break;
    case 1: everleaf_cursor_free(cursors[at]); known(everleaf_cursor_new(tree, &cursors[at])); break;
    case 2: {
        struct bytes from = key(), to = key();
        everleaf_scan_free(scans[at]);
        known(everleaf_scan_new(tree, from.at, from.len, to.at, to.len, below(18), &scans[at]));
        break;
    }
    case 3: everleaf_batch_free(batches[at]); known(everleaf_batch_new(db, (int)below(4), &batches[at])); break;
    case 4:
        everleaf_txn_free(txns[at]);
        known(everleaf_txn_begin(db, (int)below(3), (int)below(4), &txns[at]));
        break;
    case 5: everleaf_snapshot_free(snapshots[at]); known(everleaf_snapshot_new(db, &snapshots[at])); break;
    case 6: {
        struct bytes k = key();
        everleaf_writer_free(writers[at]);
        known(everleaf_writer_new(tree, k.at, k.len, 40u * byte(), &writers[at]));
        break;
    }
    default: {
        everleaf_tree *other = NULL;
        int way = (int)below(4);
        if (way == 0) known(everleaf_tree_open(db, name(), &other));
        if (way == 1) known(everleaf_tree_with(tree, (int)below(4), &other));
        if (way == 2) known(everleaf_snapshot_tree(snapshots[at], name(), &other));
        if (way == 3) known(everleaf_snapshot_of(snapshots[at], tree, &other));
        everleaf_tree_free(trees[at]);
        trees[at] = other;
    }
    }
}

static void let_go(unsigned at) {
    switch (below(KINDS)) {
    case 0: everleaf_tree_free(trees[at]); trees[at] = NULL; break;
    case 1: everleaf_cursor_free(cursors[at]); cursors[at] = NULL; break;
    case 2: everleaf_scan_free(scans[at]); scans[at] = NULL; break;
    case 3: everleaf_batch_free(batches[at]); batches[at] = NULL; break;
    case 4: everleaf_txn_free(txns[at]); txns[at] = NULL; break;
    case 5: everleaf_snapshot_free(snapshots[at]); snapshots[at] = NULL; break;
    case 6: everleaf_writer_free(writers[at]); writers[at] = NULL; break;
    default:
        if (below(8) == 0) {
            everleaf_db_free(dbs[at]);
            dbs[at] = NULL;
        }
    }
}

static void write_one(everleaf_tree *tree) {
    struct bytes k = key(), v = value(), w = below(8) == 0 ? key() : (struct bytes){NULL, 0};
    void *one, *two;
    size_t one_len, two_len;
    uint64_t pairs;
    int code;
    switch (below(13)) {
    case 0:
    case 1:
    case 2: known(everleaf_put(tree, k.at, k.len, v.at, v.len)); break;
    case 3: known(everleaf_insert_new(tree, k.at, k.len, v.at, v.len)); break;
    case 4: known(everleaf_replace(tree, k.at, k.len, v.at, v.len)); break;
    case 5:
        code = everleaf_compare_and_swap(tree, k.at, k.len, w.at, w.len, v.at, v.len, &one, &one_len);
        EXPECT(known(code) != 0 || one == NULL);
        /* Of NULL as the handle, nothing is written. */
        if (tree != NULL && code == EVERLEAF_NOT_FOUND) {
            touch(one, one_len);
            everleaf_bytes_free(one);
        }
        break;
    case 6: known(everleaf_delete(tree, k.at, k.len)); break;
    case 7:
        one = NULL, one_len = 0;
        code = everleaf_take(tree, k.at, k.len, &one, &one_len);
        taken(code, one, one_len);
        break;
    case 8:
        one = NULL, one_len = 0;
        code = everleaf_swap(tree, k.at, k.len, v.at, v.len, &one, &one_len);
        taken(code, one, one_len);
        break;
    case 9: known(everleaf_remove_range(tree, k.at, k.len, w.at, w.len, below(5), &pairs)); break;
    case 10:
    case 11:
        one = two = NULL, one_len = two_len = 0;
        code = (below(2) ? everleaf_pop_first : everleaf_pop_last)(tree, &one, &one_len, &two, &two_len);
        taken(code, one, one_len);
        taken(code, two, two_len);
        break;
    default:
        if (below(8) == 0) known(everleaf_tree_clear(tree, &pairs));
    }
}

/* All ways to read a value say the same: this thread alone writes. */
static void read_one(everleaf_tree *tree) {
    static char buf[ROOM], part[ROOM];
    struct bytes k = key();
    size_t len = 0, copied = 0, room = below(4) == 0 ? byte() : ROOM, all_len = 0;
    uint64_t told = 0, pairs;
    void *all = NULL;
    const char *text;
    int code = known(everleaf_get(tree, k.at, k.len, buf, room, &len));
    int copy = known(everleaf_get_alloc(tree, k.at, k.len, &all, &all_len));
    EXPECT(copy == (code == EVERLEAF_BUFFER_TOO_SMALL ? 0 : code) || copy == EVERLEAF_SNAPSHOT_TOO_OLD);
    if (copy == 0) {
        EXPECT(len == all_len && (code != 0 || memcmp(buf, all, len) == 0));
        EXPECT((code == EVERLEAF_BUFFER_TOO_SMALL) == (len > room));
        EXPECT(known(everleaf_value_len(tree, k.at, k.len, &told)) != 0 || told == len);
        uint64_t offset = 30u * byte();
        if (known(everleaf_read_at(tree, k.at, k.len, offset, part, room, &copied)) == 0) {
            uint64_t rest = offset < len ? len - offset : 0;
            EXPECT(copied == (rest < room ? rest : room));
            EXPECT(memcmp(part, (char *)all + (copied == 0 ? 0 : offset), copied) == 0);
        }
    }
    everleaf_bytes_free(all);
    known(everleaf_contains(tree, k.at, k.len));
    known(everleaf_tree_len(tree, &pairs));
    if (known(everleaf_tree_name(tree, &text)) == 0) touch(text, strlen(text));
}

static void of_cursor(everleaf_cursor *cursor) {
    const void *k, *v, *k2, *v2;
    size_t k_len, v_len, k2_len, v2_len;
    struct bytes to = key();
    switch (below(8)) {
    case 0: known(everleaf_cursor_first(cursor)); break;
    case 1: known(everleaf_cursor_last(cursor)); break;
    case 2: known(everleaf_cursor_seek(cursor, to.at, to.len)); break;
    case 3: known(everleaf_cursor_seek_for_prev(cursor, to.at, to.len)); break;
    case 4: known(everleaf_cursor_prev(cursor)); break;
    default: known(everleaf_cursor_next(cursor));
    }
    if (known(everleaf_cursor_pair(cursor, &k, &k_len, &v, &v_len)) == 0) {
        EXPECT(everleaf_cursor_key(cursor, &k2, &k2_len) == 0 && k2_len == k_len);
        EXPECT(everleaf_cursor_value(cursor, &v2, &v2_len) == 0 && v2_len == v_len);
        EXPECT(memcmp(k, k2, k_len) == 0 && (v_len == 0 || memcmp(v, v2, v_len) == 0));
    }
}

static void of_scan(everleaf_scan *scan) {
    size_t pairs = 0, used = 0, needed = 0, room = below(2) ? byte() : ROOM;
    char *buf = malloc(room + 1);
    int code = known(everleaf_scan_fill(scan, buf, room, &pairs, &used, &needed));
    if (code == EVERLEAF_BUFFER_TOO_SMALL) {
        EXPECT(needed > room);
        buf = realloc(buf, needed);
        EXPECT(known(everleaf_scan_fill(scan, buf, needed, &pairs, &used, &needed)) < 0 || pairs == 1);
    } else if (code == 0) {
        EXPECT(pairs > 0 && used <= room);
    }
    size_t at = 0, count = 0;
    for (; code == 0 && at < used; count++) {
        uint32_t lens[2];
        memcpy(lens, buf + at, sizeof lens);
        at += sizeof lens + lens[0] + lens[1];
    }
    EXPECT(code != 0 || (at == used && count == pairs));
    touch(buf, code == 0 ? used : 0);
    free(buf);
}

static void of_several(unsigned at, everleaf_tree *tree) {
    struct bytes k = key(), v = value();
    everleaf_txn *txn = txns[at];
    static char buf[ROOM];
    size_t len = 0;
    void *copy = NULL;
    int code;
    switch (below(14)) {
    case 0:
    case 1: known(everleaf_batch_put(batches[at], tree, k.at, k.len, v.at, v.len)); break;
    case 2: known(everleaf_batch_delete(batches[at], tree, k.at, k.len)); break;
    case 3: known(everleaf_batch_commit(batches[at])); known(everleaf_batch_len(batches[at], &len)); break;
    case 4: known(everleaf_txn_get(txn, tree, k.at, k.len, buf, ROOM, &len)); break;
    case 5:
        code = everleaf_txn_get_alloc(txn, tree, k.at, k.len, &copy, &len);
        taken(code, copy, len);
        break;
    case 6: known(everleaf_txn_contains(txn, tree, k.at, k.len)); break;
    case 7:
    case 8: known(everleaf_txn_put(txn, tree, k.at, k.len, v.at, v.len)); break;
    case 9: known(everleaf_txn_delete(txn, tree, k.at, k.len)); break;
    case 10:
        everleaf_scan_free(scans[at]);
        known(everleaf_txn_scan_new(txn, tree, k.at, k.len, NULL, 0, below(18), &scans[at]));
        break;
    case 11:
        if (known(everleaf_txn_commit(txn)) == EVERLEAF_CONFLICT) {
            touch(everleaf_last_conflict_key(&len), len);
            touch(everleaf_last_conflict_tree(), strlen(everleaf_last_conflict_tree()));
        }
        break;
    case 12: known(everleaf_txn_abort(txn)); break;
    default:
        if (below(2)) known(everleaf_writer_write(writers[at], v.at, v.len));
        else known(everleaf_writer_finish(writers[at]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input = data;
    input_end = data + size;
    open_one(0);
    known(everleaf_tree_create(dbs[0], "a", &trees[0]));
    for (int i = 0; i < OPERATIONS && input < input_end; i++) {
        unsigned at = below(SLOTS);
        everleaf_tree *tree = trees[below(SLOTS)];
        everleaf_db *db = dbs[below(8) == 0 ? at : 0];
        switch (below(16)) {
        case 0: of_pool(db, at); break;
        case 1:
        case 2:
        case 3: make(db, tree, at); break;
        case 4: let_go(at); break;
        case 5:
        case 6: read_one(tree); break;
        case 7:
        case 8: of_cursor(cursors[at]); break;
        case 9: of_scan(scans[at]); break;
        case 10:
        case 11:
        case 12: of_several(at, tree); break;
        default: write_one(tree);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        everleaf_db_free(dbs[i]);
        everleaf_tree_free(trees[i]);
        everleaf_cursor_free(cursors[i]);
        everleaf_scan_free(scans[i]);
        everleaf_batch_free(batches[i]);
        everleaf_txn_free(txns[i]);
        everleaf_snapshot_free(snapshots[i]);
        everleaf_writer_free(writers[i]);
        dbs[i] = NULL, trees[i] = NULL, cursors[i] = NULL, scans[i] = NULL;
        batches[i] = NULL, txns[i] = NULL, snapshots[i] = NULL, writers[i] = NULL;
    }
    return 0;
}
