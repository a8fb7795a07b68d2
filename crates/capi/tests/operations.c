/*
 * operations FOLDER COUNT SEED [alone]: random operations beside an array that says what they must answer. Every function
 * of the header is in it. With `alone` it ends when its last thread has ended, so that memory tools see no stack of one.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#define KEYS 512
#define VALUE_MAX 3000

/* A value is known by the number that its bytes are made of, and its length. */
struct value {
    int is_there;
    uint64_t made_of;
    size_t len;
};

static struct value model[KEYS], saved[KEYS];
static uint64_t state;
static everleaf_options *options;
static everleaf_db *db;
static everleaf_tree *tree;
static const char *folder;
static unsigned char buf[VALUE_MAX], other[VALUE_MAX];

static uint64_t below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static void key_of(size_t i, unsigned char key[2]) {
    key[0] = (unsigned char)(i >> 8);
    key[1] = (unsigned char)i;
}

static void fill(unsigned char *bytes, const struct value *value) {
    size_t i;
    for (i = 0; i < value->len; i++) bytes[i] = (unsigned char)(value->made_of * 31 + i * 7);
}

static struct value new_value(void) {
    struct value value;
    value.is_there = 1;
    value.made_of = below(1u << 30);
    value.len = below(20) ? below(60) : below(VALUE_MAX);
    fill(buf, &value);
    return value;
}

static void same(const void *bytes, size_t len, const struct value *value) {
    EXPECT(value->is_there && len == value->len);
    fill(other, value);
    EXPECT(len == 0 || memcmp(bytes, other, len) == 0);
}

/* Bytes that a call has given to own. */
static void owned(int code, void *bytes, size_t len, const struct value *value) {
    EXPECT(code == (value->is_there ? 0 : 1) && (bytes != NULL) == value->is_there);
    if (bytes) same(bytes, len, value);
    everleaf_bytes_free(bytes);
}

static void open_pool(void) {
    DO(everleaf_open(in_folder(folder, "operations.ever"), options, &db));
    DO(everleaf_tree_create(db, "t", &tree));
}

static void write_one(size_t i) {
    unsigned char key[2];
    struct value value = new_value(), old = model[i];
    void *bytes = NULL;
    size_t len = 0;
    int code;
    key_of(i, key);
    switch (below(9)) {
    case 0: case 1: case 2:
        DO(everleaf_put(tree, key, 2, buf, value.len));
        model[i] = value;
        break;
    case 3:
        EXPECT(everleaf_insert_new(tree, key, 2, buf, value.len) == old.is_there);
        if (!old.is_there) model[i] = value;
        break;
    case 4:
        EXPECT(everleaf_replace(tree, key, 2, buf, value.len) == !old.is_there);
        if (old.is_there) model[i] = value;
        break;
    case 5:
        DO(everleaf_delete(tree, key, 2));
        model[i].is_there = 0;
        break;
    case 6:
        code = everleaf_take(tree, key, 2, &bytes, &len);
        owned(code, bytes, len, &old);
        model[i].is_there = 0;
        break;
    case 7:
        code = everleaf_swap(tree, key, 2, buf, value.len, &bytes, &len);
        owned(code, bytes, len, &old);
        model[i] = value;
        break;
    default:
        fill(other, &old);
        code = everleaf_compare_and_swap(tree, key, 2, old.is_there ? other : NULL, old.is_there ? old.len : 0, buf,
                                         value.len, &bytes, &len);
        EXPECT(code == 0 && bytes == NULL);
        model[i] = value;
        EXPECT(everleaf_compare_and_swap(tree, key, 2, NULL, 0, NULL, 0, &bytes, &len) == 1);
        owned(0, bytes, len, &value);
    }
}

static void read_one(const everleaf_tree *of, const struct value *is, size_t i) {
    unsigned char key[2], small[10];
    void *bytes = NULL;
    size_t len = 7;
    uint64_t long_len = 7;
    int code;
    key_of(i, key);
    EXPECT(everleaf_contains(of, key, 2) == !is->is_there);
    EXPECT(everleaf_value_len(of, key, 2, &long_len) == !is->is_there);
    EXPECT(long_len == (is->is_there ? is->len : 0));
    code = everleaf_get(of, key, 2, buf, sizeof buf, &len);
    EXPECT(code == !is->is_there);
    if (code == 0) same(buf, len, is);
    code = everleaf_get_alloc(of, key, 2, &bytes, &len);
    owned(code, bytes, len, is);
    code = everleaf_get(of, key, 2, small, sizeof small, &len);
    EXPECT(code == (!is->is_there ? 1 : is->len > sizeof small ? EVERLEAF_BUFFER_TOO_SMALL : 0));
    EXPECT(everleaf_read_at(of, key, 2, 3, small, sizeof small, &len) == !is->is_there);
    if (is->is_there) {
        size_t rest = is->len < 3 ? 0 : is->len - 3;
        EXPECT(len == (rest < sizeof small ? rest : sizeof small));
        fill(other, is);
        EXPECT(memcmp(small, other + 3, len) == 0);
    }
}

/* A cursor over all, up and down, against the array. */
static void walk(const everleaf_tree *of, const struct value *are) {
    everleaf_cursor *cursor;
    unsigned char key[2];
    const void *k, *v;
    size_t kn, vn, i, from = below(KEYS);
    int code;
    DO(everleaf_cursor_new(of, &cursor));
    EXPECT(everleaf_cursor_key(cursor, &k, &kn) == 1 && k == NULL && kn == 0);
    key_of(from, key);
    code = everleaf_cursor_seek(cursor, key, 2);
    for (i = from; i < KEYS; i++) {
        if (!are[i].is_there) continue;
        key_of(i, key);
        EXPECT(code == 0 && everleaf_cursor_key(cursor, &k, &kn) == 0 && everleaf_cursor_value(cursor, &v, &vn) == 0);
        EXPECT(kn == 2 && memcmp(k, key, 2) == 0);
        same(v, vn, &are[i]);
        code = everleaf_cursor_next(cursor);
    }
    EXPECT(code == 1);
    key_of(from, key);
    code = everleaf_cursor_seek_for_prev(cursor, key, 2);
    for (i = from + 1; i-- > 0;) {
        if (!are[i].is_there) continue;
        key_of(i, key);
        EXPECT(code == 0 && everleaf_cursor_pair(cursor, &k, &kn, &v, &vn) == 0);
        EXPECT(kn == 2 && memcmp(k, key, 2) == 0);
        same(v, vn, &are[i]);
        code = everleaf_cursor_prev(cursor);
    }
    EXPECT(code == 1);
    EXPECT(everleaf_cursor_first(cursor) == everleaf_cursor_last(cursor));
    everleaf_cursor_free(cursor);
}

/* A scan that is done: its pairs are those from `from` up to `to`. */
static void scan_is(everleaf_scan *scan, const struct value *are, size_t from, size_t to) {
    unsigned char small[200], *room = small, key[2];
    size_t room_len = sizeof small, pairs, used, needed, i = from;
    int code;
    while ((code = everleaf_scan_fill(scan, room, room_len, &pairs, &used, &needed)) != 1) {
        unsigned char *at = room;
        if (code == EVERLEAF_BUFFER_TOO_SMALL) {
            EXPECT(needed > room_len && pairs == 0);
            if (room != small) free(room);
            room = malloc(room_len = needed);
            continue;
        }
        EXPECT(code == 0 && pairs > 0);
        for (; pairs > 0; pairs--) {
            uint32_t lens[2];
            memcpy(lens, at, 8);
            while (i < to && !are[i].is_there) i++;
            EXPECT(i < to && lens[0] == 2);
            key_of(i, key);
            EXPECT(memcmp(at + 8, key, 2) == 0);
            same(at + 10, lens[1], &are[i++]);
            at += 10 + lens[1];
        }
        EXPECT(at == room + used);
    }
    while (i < to && !are[i].is_there) i++;
    EXPECT(i == to);
    if (room != small) free(room);
    everleaf_scan_free(scan);
}

static void scan(const everleaf_tree *of, const struct value *are) {
    size_t from = below(KEYS), to = from + below(KEYS - from);
    unsigned char a[2], b[2];
    everleaf_scan *scan;
    key_of(from, a);
    key_of(to, b);
    DO(everleaf_scan_new(of, a, 2, b, 2, 0, &scan));
    scan_is(scan, are, from, to);
}

static void batch(void) {
    everleaf_batch *batch;
    unsigned char key[2];
    size_t i, n = below(30), len;
    DO(everleaf_batch_new(db, EVERLEAF_BUFFERED, &batch));
    for (i = 0; i < n; i++) {
        size_t at = below(KEYS);
        key_of(at, key);
        if (below(3)) {
            struct value value = new_value();
            DO(everleaf_batch_put(batch, tree, key, 2, buf, value.len));
            model[at] = value;
        } else {
            DO(everleaf_batch_delete(batch, tree, key, 2));
            model[at].is_there = 0;
        }
    }
    DO(everleaf_batch_len(batch, &len));
    EXPECT(len == n);
    DO(everleaf_batch_commit(batch));
    everleaf_batch_free(batch);
}

static void transaction(void) {
    everleaf_txn *txn;
    everleaf_scan *scan;
    size_t i = below(KEYS), len = 0;
    unsigned char key[2];
    void *bytes = NULL;
    struct value value, old = model[i];
    int code;
    DO(everleaf_txn_begin(db, EVERLEAF_SERIALIZABLE, EVERLEAF_AS_OPENED, &txn));
    key_of(i, key);
    EXPECT(everleaf_txn_contains(txn, tree, key, 2) == !old.is_there);
    code = everleaf_txn_get(txn, tree, key, 2, buf, sizeof buf, &len);
    EXPECT(code == !old.is_there);
    if (code == 0) same(buf, len, &old);
    value = new_value();
    DO(everleaf_txn_put(txn, tree, key, 2, buf, value.len));
    code = everleaf_txn_get_alloc(txn, tree, key, 2, &bytes, &len);
    owned(code, bytes, len, &value);
    model[i] = value;
    DO(everleaf_txn_scan_new(txn, tree, NULL, 0, NULL, 0, 0, &scan));
    scan_is(scan, model, 0, KEYS);
    switch (below(3)) {
    case 0:
        DO(everleaf_txn_commit(txn));
        break;
    case 1:
        DO(everleaf_txn_delete(txn, tree, key, 2));
        DO(everleaf_txn_abort(txn));
        model[i] = old;
        break;
    default:
        /* Another one was faster. */
        value = new_value();
        DO(everleaf_put(tree, key, 2, buf, value.len));
        model[i] = value;
        FAILS(EVERLEAF_CONFLICT, "tree \"t\"", everleaf_txn_commit(txn));
        EXPECT(strcmp(everleaf_last_conflict_tree(), "t") == 0 && everleaf_last_errno() == 0);
        EXPECT(memcmp(everleaf_last_conflict_key(&len), key, 2) == 0 && len == 2);
    }
    everleaf_txn_free(txn);
}

static void snapshot(void) {
    everleaf_snapshot *snapshot;
    everleaf_tree *then, *too, *later, *empty;
    everleaf_names *names;
    uint64_t pairs = 1;
    size_t i;
    DO(everleaf_snapshot_new(db, &snapshot));
    memcpy(saved, model, sizeof model);
    for (i = 0; i < 20; i++) write_one(below(KEYS));
    DO(everleaf_snapshot_tree(snapshot, "t", &then));
    DO(everleaf_snapshot_of(snapshot, tree, &too));
    DO(everleaf_tree_create(db, "later", &later));
    DO(everleaf_put(later, "k", 1, "v", 1));
    DO(everleaf_snapshot_of(snapshot, later, &empty));
    DO(everleaf_tree_len(empty, &pairs));
    EXPECT(pairs == 0);
    everleaf_tree_free(empty);
    everleaf_tree_free(later);
    DO(everleaf_tree_drop(db, "later"));
    DO(everleaf_snapshot_tree_names(snapshot, &names));
    EXPECT(everleaf_names_len(names) == 1);
    everleaf_names_free(names);
    everleaf_snapshot_free(snapshot);
    walk(then, saved);
    scan(too, saved);
    for (i = 0; i < 5; i++) {
        size_t at = below(KEYS);
        read_one(then, &saved[at], at);
    }
    everleaf_tree_free(then);
    everleaf_tree_free(too);
}

static void by_pieces(void) {
    static unsigned char piece[70000];
    everleaf_writer *writer;
    uint64_t len;
    DO(everleaf_writer_new(tree, "large", 5, 3 * sizeof piece, &writer));
    DO(everleaf_writer_write(writer, piece, sizeof piece));
    DO(everleaf_writer_write(writer, piece, sizeof piece));
    if (below(2)) {
        DO(everleaf_writer_write(writer, piece, sizeof piece));
        DO(everleaf_writer_finish(writer));
        DO(everleaf_value_len(tree, "large", 5, &len));
        EXPECT(len == 3 * sizeof piece);
        DO(everleaf_delete(tree, "large", 5));
    }
    everleaf_writer_free(writer);
}

static void some(void) {
    unsigned char a[2], b[2];
    size_t from = below(KEYS), to = from + below(9), i, kn, vn;
    uint64_t pairs = 0, there = 0;
    void *k, *v;
    int code;
    to = to > KEYS ? KEYS : to;
    key_of(from, a);
    key_of(to, b);
    for (i = from; i < to; i++) {
        there += model[i].is_there;
        model[i].is_there = 0;
    }
    DO(everleaf_remove_range(tree, a, 2, b, 2, 0, &pairs));
    EXPECT(pairs == there);
    for (i = 0; i < KEYS && !model[i].is_there; i++) {}
    code = everleaf_pop_first(tree, &k, &kn, &v, &vn);
    EXPECT(code == (i == KEYS));
    everleaf_bytes_free(k);
    if (i < KEYS) {
        owned(code, v, vn, &model[i]);
        model[i].is_there = 0;
    }
    for (i = KEYS; i > 0 && !model[i - 1].is_there; i--) {}
    code = everleaf_pop_last(tree, &k, &kn, &v, &vn);
    EXPECT(code == (i == 0));
    everleaf_bytes_free(k);
    if (i > 0) {
        owned(code, v, vn, &model[i - 1]);
        model[i - 1].is_there = 0;
    }
    for (there = 0, i = 0; i < KEYS; i++) there += model[i].is_there;
    DO(everleaf_tree_len(tree, &pairs));
    EXPECT(pairs == there);
}

static void names(void) {
    everleaf_names *names;
    everleaf_tree *spare, *sync;
    const char *name;
    size_t len;
    DO(everleaf_tree_create(db, "spare", &spare));
    DO(everleaf_tree_name(spare, &name));
    EXPECT(strcmp(name, "spare") == 0);
    DO(everleaf_tree_with(spare, EVERLEAF_SYNC, &sync));
    DO(everleaf_put(sync, "k", 1, "v", 1));
    DO(everleaf_tree_clear(spare, NULL));
    DO(everleaf_tree_rename(db, "spare", "s"));
    DO(everleaf_tree_names(db, &names));
    EXPECT(everleaf_names_len(names) == 2);
    DO(everleaf_names_at(names, 0, &name, &len));
    EXPECT(strcmp(name, "s") == 0 && len == 1);
    everleaf_names_free(names);
    DO(everleaf_tree_drop(db, "s"));
    everleaf_tree_free(spare);
    EXPECT(everleaf_tree_open(db, "s", &spare) == 1 && spare == NULL);
    everleaf_tree_free(sync);
}

static void pool(void) {
    everleaf_stats stats;
    everleaf_damages *damages;
    const char *copy = in_folder(folder, "copy.ever"), *what;
    uint64_t epoch, durable, before, after, offset;
    stats.size = sizeof stats;
    DO(everleaf_db_stats(db, &stats));
    EXPECT(stats.size == sizeof stats && stats.page_bytes == 4096);
    DO(everleaf_epoch(db, &epoch));
    DO(everleaf_wait_durable(db, epoch, 100000));
    DO(everleaf_durable_epoch(db, &durable));
    EXPECT(durable >= epoch);
    DO(everleaf_end_epoch(db, &epoch));
    EXPECT(epoch > durable);
    DO(everleaf_wait_durable(db, epoch, -1));
    DO(everleaf_end_epoch(db, NULL));
    DO(everleaf_pending_bytes(db, &offset));
    DO(everleaf_sync(db));
    DO(everleaf_checkpoint(db));
    DO(everleaf_compact(db, &before, &after));
    DO(everleaf_backup(db, copy, &epoch));
    EXPECT(remove(copy) == 0);
    DO(everleaf_check(db, &damages));
    EXPECT(everleaf_damages_len(damages) == 0);
    EXPECT(everleaf_damages_at(damages, 0, &offset, &what) == EVERLEAF_INVALID);
    everleaf_damages_free(damages);
    everleaf_tree_free(tree);
    if (below(2)) {
        DO(everleaf_close(db));
    } else {
        DO(everleaf_sync(db));
        DO(everleaf_abandon(db));
    }
    everleaf_db_free(db);
    open_pool();
}

static everleaf_options *all_options(void) {
    everleaf_options *o = everleaf_options_new();
    DO(everleaf_options_interval(o, 2000));
    DO(everleaf_options_durability(o, EVERLEAF_BUFFERED));
    DO(everleaf_options_journal_bytes(o, 8 << 20));
    DO(everleaf_options_pending_bytes(o, 1 << 20));
    DO(everleaf_options_page_bytes(o, 4096));
    DO(everleaf_options_max_bytes(o, 1 << 28));
    DO(everleaf_options_create(o, 1));
    DO(everleaf_options_read_only(o, 0));
    DO(everleaf_options_storage(o, EVERLEAF_STORAGE_FILE));
    DO(everleaf_options_background(o, 1));
    DO(everleaf_options_manual_epochs(o, below(2)));
    DO(everleaf_options_compression(o, EVERLEAF_COMPRESSION_NONE));
    DO(everleaf_options_budget(o, NULL));
    DO(everleaf_options_memory(o, 16 << 20));
    DO(everleaf_options_snapshot_memory(o, 32 << 20));
    DO(everleaf_options_transaction_memory(o, 32 << 20));
    return o;
}

/* Waits until this thread is the only one. */
static void wait_alone(void) {
    struct timespec pause = {0, 100000000};
    int threads = 2, waits;
    for (waits = 0; threads > 1 && waits < 600; waits++) {
        DIR *tasks = opendir("/proc/self/task");
        struct dirent *entry;
        threads = 0;
        while ((entry = readdir(tasks)) != NULL) threads += entry->d_name[0] != '.';
        closedir(tasks);
        if (threads > 1) nanosleep(&pause, NULL);
    }
    EXPECT(threads == 1);
}

/* Two pools in one budget, which outlive the handle to it. */
static void budgets(void) {
    everleaf_budget *budget = everleaf_budget_new(8 << 20);
    everleaf_options *o = everleaf_options_new();
    everleaf_db *dbs[2];
    everleaf_tree *t;
    size_t i;
    char value[1000] = {7};
    DO(everleaf_options_budget(o, budget));
    for (i = 0; i < 2; i++) {
        DO(everleaf_open_in_memory(o, &dbs[i]));
        DO(everleaf_tree_create(dbs[i], "t", &t));
        DO(everleaf_put(t, "k", 1, value, sizeof value));
        everleaf_tree_free(t);
    }
    EXPECT(everleaf_budget_bytes(budget) == 8 << 20 && everleaf_budget_pools(budget) == 2);
    EXPECT(everleaf_budget_used(budget) > 0 && everleaf_budget_used(budget) < 8 << 20);
    EXPECT(everleaf_budget_bytes(NULL) > 0 && everleaf_budget_used(NULL) < everleaf_budget_bytes(NULL));
    everleaf_budget_free(budget);
    everleaf_options_free(o);
    for (i = 0; i < 2; i++) {
        DO(everleaf_tree_open(dbs[i], "t", &t));
        DO(everleaf_put(t, "l", 1, value, sizeof value));
        everleaf_tree_free(t);
        DO(everleaf_close(dbs[i]));
        everleaf_db_free(dbs[i]);
    }
}

int main(int argc, char **argv) {
    uint64_t count, n;
    everleaf_db *memory;
    EXPECT(argc >= 4);
    folder = argv[1];
    count = strtoull(argv[2], NULL, 10);
    state = strtoull(argv[3], NULL, 10);
    options = all_options();
    remove(in_folder(folder, "operations.ever"));
    open_pool();
    for (n = 0; n < count; n++) {
        uint64_t what = below(1000);
        size_t i = below(KEYS);
        if (what < 450) write_one(i);
        else if (what < 900) read_one(tree, &model[i], i);
        else if (what < 930) walk(tree, model);
        else if (what < 955) scan(tree, model);
        else if (what < 975) batch();
        else if (what < 990) transaction();
        else if (what < 995) snapshot();
        else if (what < 997) some();
        else if (what < 998) by_pieces();
        else if (what < 999) names();
        else if (below(10) == 0) pool();
    }
    /* Once at least. */
    batch(), transaction(), snapshot(), some(), by_pieces(), names(), pool();
    walk(tree, model);
    DO(everleaf_open_in_memory(options, &memory));
    everleaf_db_free(memory);
    budgets();
    EXPECT(strcmp(everleaf_code_name(EVERLEAF_CLOSED), "EVERLEAF_CLOSED") == 0 && strlen(everleaf_version()) >= 5);
    DO(everleaf_close(db));
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    everleaf_options_free(options);
    if (argc > 4) wait_alone();
    printf("%llu operations\n", (unsigned long long)count);
    return 0;
}
