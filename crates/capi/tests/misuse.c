/* misuse FOLDER: what a program may get wrong, and what it is told. */
#include "check.h"

#include <errno.h>

static everleaf_db *db;
static everleaf_tree *tree;

/* NULL and lengths. */
static void pointers(void) {
    char buf[4];
    size_t len = 7;
    everleaf_tree *none = (everleaf_tree *)buf;
    everleaf_scan *scan;
    void *bytes;
    uint64_t pairs;
    everleaf_db *other = db;
    FAILS(EVERLEAF_INVALID, "the handle is NULL", everleaf_put(NULL, "k", 1, "v", 1));
    FAILS(EVERLEAF_INVALID, "a pointer is NULL, and its length is 1", everleaf_put(tree, NULL, 1, "v", 1));
    FAILS(EVERLEAF_INVALID, "a pointer is NULL, and its length is 2", everleaf_put(tree, "k", 1, NULL, 2));
    FAILS(EVERLEAF_INVALID, "more than memory can have", everleaf_put(tree, "k", (size_t)-1, "v", 1));
    FAILS(EVERLEAF_INVALID, "more than memory can have", everleaf_put(tree, "k", 1, "v", (size_t)1 << 63));
    FAILS(EVERLEAF_INVALID, "more than memory can have", everleaf_contains(tree, "k", (size_t)-1));
    FAILS(EVERLEAF_INVALID, "a pointer is NULL, and its length is 4", everleaf_get(tree, "k", 1, NULL, 4, &len));
    FAILS(EVERLEAF_INVALID, "more than memory can have", everleaf_get(tree, "k", 1, buf, (size_t)-1, &len));
    FAILS(EVERLEAF_INVALID, "a pointer is NULL", everleaf_read_at(tree, "k", 1, 0, NULL, 4, &len));
    FAILS(EVERLEAF_INVALID, "the result is NULL", everleaf_read_at(tree, "k", 1, 0, buf, 4, NULL));
    FAILS(EVERLEAF_INVALID, "the result is NULL", everleaf_take(tree, "k", 1, NULL, NULL));
    FAILS(EVERLEAF_INVALID, "the result is NULL", everleaf_pop_first(tree, &bytes, NULL, NULL, NULL));
    FAILS(EVERLEAF_INVALID, "the result is NULL", everleaf_tree_create(db, "t", NULL));
    FAILS(EVERLEAF_INVALID, "a name is NULL", everleaf_tree_create(db, NULL, &none));
    EXPECT(none == NULL);
    FAILS(EVERLEAF_INVALID, "a path is NULL", everleaf_open(NULL, NULL, &other));
    EXPECT(other == NULL);
    DO(everleaf_tree_len(tree, &pairs));
    EXPECT(pairs == 0);
    /* Without a length a pointer does not matter. */
    DO(everleaf_put(tree, NULL, 0, NULL, 0));
    DO(everleaf_get(tree, (void *)1, 0, NULL, 0, &len));
    EXPECT(len == 0);
    DO(everleaf_get_alloc(tree, NULL, 0, &bytes, NULL));
    EXPECT(bytes != NULL);
    everleaf_bytes_free(bytes);
    /* NULL is no value, and an empty value is one. */
    EXPECT(everleaf_compare_and_swap(tree, NULL, 0, NULL, 0, "v", 1, NULL, NULL) == EVERLEAF_NOT_FOUND);
    DO(everleaf_compare_and_swap(tree, NULL, 0, "", 0, NULL, 0, NULL, NULL));
    EXPECT(everleaf_contains(tree, NULL, 0) == EVERLEAF_NOT_FOUND);
    FAILS(EVERLEAF_INVALID, "flags 0x10", everleaf_scan_new(tree, NULL, 0, NULL, 0, 16, &scan));
    EXPECT(scan == NULL);
    FAILS(EVERLEAF_INVALID, "flags 0x4", everleaf_remove_range(tree, NULL, 0, NULL, 0, EVERLEAF_REVERSE, NULL));
}

static void names(void) {
    char name[257];
    everleaf_tree *none;
    memset(name, 'n', 256);
    name[256] = 0;
    FAILS(EVERLEAF_INVALID, "not UTF-8", everleaf_tree_create(db, "\xff\xfe", &none));
    FAILS(EVERLEAF_INVALID, "not UTF-8", everleaf_tree_rename(db, "t", "\xc3"));
    FAILS(EVERLEAF_TREE_NAME, "1 to 255 bytes, this one has 0", everleaf_tree_create(db, "", &none));
    FAILS(EVERLEAF_TREE_NAME, "this one has 256", everleaf_tree_create(db, name, &none));
    name[255] = 0;
    DO(everleaf_tree_create(db, name, &none));
    everleaf_tree_free(none);
    DO(everleaf_tree_drop(db, name));
}

/* Keys of 0, 65,536 and 65,537 bytes; values of 0 bytes and of more than there may be. */
static void lengths(void) {
    static char key[65537];
    size_t len = 7;
    char buf[2];
    everleaf_batch *batch;
    everleaf_txn *txn;
    everleaf_writer *writer;
    DO(everleaf_put(tree, "", 0, "", 0));
    DO(everleaf_put(tree, key, 65536, "v", 1));
    DO(everleaf_get(tree, key, 65536, buf, 2, &len));
    EXPECT(len == 1);
    FAILS(EVERLEAF_KEY_TOO_LONG, "this one has 65,537", everleaf_put(tree, key, 65537, "v", 1));
    EXPECT(everleaf_contains(tree, key, 65537) == EVERLEAF_NOT_FOUND);
    FAILS(EVERLEAF_KEY_TOO_LONG, "65,537", everleaf_delete(tree, key, 65537));
    DO(everleaf_batch_new(db, EVERLEAF_AS_OPENED, &batch));
    FAILS(EVERLEAF_KEY_TOO_LONG, "65,537", everleaf_batch_put(batch, tree, key, 65537, "", 0));
    FAILS(EVERLEAF_INVALID, "the tree is NULL", everleaf_batch_put(batch, NULL, key, 1, "", 0));
    DO(everleaf_batch_len(batch, &len));
    EXPECT(len == 0);
    everleaf_batch_free(batch);
    DO(everleaf_txn_begin(db, EVERLEAF_SERIALIZABLE, EVERLEAF_AS_OPENED, &txn));
    FAILS(EVERLEAF_KEY_TOO_LONG, "65,537", everleaf_txn_put(txn, tree, key, 65537, "", 0));
    DO(everleaf_txn_abort(txn));
    FAILS(EVERLEAF_INVALID, "was committed or aborted", everleaf_txn_put(txn, tree, key, 1, "", 0));
    FAILS(EVERLEAF_INVALID, "was committed or aborted", everleaf_txn_abort(txn));
    everleaf_txn_free(txn);
    /* 4 GiB are one byte too many. */
    DO(everleaf_writer_new(tree, "k", 1, (uint64_t)1 << 32, &writer));
    FAILS(EVERLEAF_VALUE_TOO_LONG, "4,294,967,296", everleaf_writer_finish(writer));
    FAILS(EVERLEAF_INVALID, "was finished, or has failed", everleaf_writer_write(writer, "v", 1));
    FAILS(EVERLEAF_INVALID, "was finished, or has failed", everleaf_writer_finish(writer));
    everleaf_writer_free(writer);
    DO(everleaf_writer_new(tree, "k", 1, 3, &writer));
    FAILS(EVERLEAF_INVALID, "4 bytes of a value of which 3 are missing", everleaf_writer_write(writer, "1234", 4));
    DO(everleaf_writer_write(writer, "12", 2));
    FAILS(EVERLEAF_READER_ENDED, "2 of the 3 bytes", everleaf_writer_finish(writer));
    everleaf_writer_free(writer);
    DO(everleaf_writer_new(tree, "k", 1, 0, &writer));
    DO(everleaf_writer_finish(writer));
    everleaf_writer_free(writer);
    DO(everleaf_get(tree, "k", 1, buf, 2, &len));
    EXPECT(len == 0);
    DO(everleaf_tree_clear(tree, NULL));
}

static void wild_options(const char *folder) {
    everleaf_options *o = everleaf_options_new();
    everleaf_db *other = db;
    everleaf_tree *same;
    everleaf_batch *batch;
    everleaf_txn *txn;
    FAILS(EVERLEAF_INVALID_OPTION, "durability 77: there is no such choice", everleaf_options_durability(o, 77));
    FAILS(EVERLEAF_INVALID_OPTION, "storage -1: ", everleaf_options_storage(o, -1));
    FAILS(EVERLEAF_INVALID_OPTION, "compression 2147483647: ", everleaf_options_compression(o, 2147483647));
    FAILS(EVERLEAF_INVALID_OPTION, "durability 3: ", everleaf_tree_with(tree, 3, &same));
    FAILS(EVERLEAF_INVALID_OPTION, "durability -3: ", everleaf_batch_new(db, -3, &batch));
    FAILS(EVERLEAF_INVALID_OPTION, "isolation 2: ", everleaf_txn_begin(db, 2, 0, &txn));
    FAILS(EVERLEAF_INVALID_OPTION, "durability 9: ", everleaf_txn_begin(db, 0, 9, &txn));
    DO(everleaf_options_page_bytes(o, 12345));
    FAILS(EVERLEAF_INVALID_OPTION, "12345", everleaf_open(in_folder(folder, "wild.ever"), o, &other));
    EXPECT(other == NULL);
    DO(everleaf_options_page_bytes(o, 512));
    DO(everleaf_options_interval(o, UINT64_MAX));
    DO(everleaf_options_journal_bytes(o, UINT64_MAX));
    DO(everleaf_options_pending_bytes(o, 0));
    DO(everleaf_options_max_bytes(o, 0));
    DO(everleaf_options_memory(o, 0));
    DO(everleaf_options_snapshot_memory(o, 0));
    DO(everleaf_options_transaction_memory(o, 0));
    DO(everleaf_options_create(o, -5));
    /* An option outside of its limits counts as the limit. */
    DO(everleaf_open(in_folder(folder, "wild.ever"), o, &other));
    DO(everleaf_close(other));
    everleaf_db_free(other);
    everleaf_options_free(o);
}

static void places(const char *folder) {
    everleaf_options *o = everleaf_options_new();
    everleaf_db *other = NULL;
    FILE *file;
    FAILS(EVERLEAF_IO, "no/such/folder", everleaf_open(in_folder(folder, "no/such/folder/p.ever"), NULL, &other));
    EXPECT(everleaf_last_errno() == ENOENT && other == NULL);
    FAILS(EVERLEAF_FOREIGN, "not a usable pool", everleaf_open(folder, NULL, &other));
    file = fopen(in_folder(folder, "text"), "w");
    EXPECT(file && fputs("This is a text, and no pool.\n", file) >= 0 && fclose(file) == 0);
    FAILS(EVERLEAF_FOREIGN, "text: not a usable pool", everleaf_open(in_folder(folder, "text"), NULL, &other));
    EXPECT(everleaf_last_errno() == 0);
    DO(everleaf_options_create(o, 0));
    FAILS(EVERLEAF_IO, "missing.ever", everleaf_open(in_folder(folder, "missing.ever"), o, &other));
    /* Persistent memory is a feature that this library was built without. */
    DO(everleaf_options_create(o, 1));
    DO(everleaf_options_storage(o, EVERLEAF_STORAGE_EMULATED_DAX));
    DO(everleaf_options_max_bytes(o, 4 << 20));
    other = db;
    FAILS(EVERLEAF_UNSUPPORTED, "it needs the feature `dax`", everleaf_open(in_folder(folder, "dax.ever"), o, &other));
    EXPECT(other == NULL);
    DO(everleaf_options_storage(o, EVERLEAF_STORAGE_DAX));
    FAILS(EVERLEAF_UNSUPPORTED, "no persistent memory",
          (everleaf_close(db), everleaf_open(in_folder(folder, "misuse.ever"), o, &other)));
    /* A pool that is closed says so first. */
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_put(tree, NULL, 1, "v", 1));
    FAILS(EVERLEAF_CLOSED, "closed", everleaf_get(tree, NULL, 1, NULL, 1, NULL));
    everleaf_options_free(o);
}

static void other_pool(void) {
    everleaf_db *two;
    everleaf_tree *there, *none;
    everleaf_batch *batch;
    everleaf_snapshot *snapshot;
    everleaf_txn *txn;
    char buf[4];
    DO(everleaf_open_in_memory(NULL, &two));
    DO(everleaf_tree_create(two, "there", &there));
    DO(everleaf_batch_new(db, 0, &batch));
    FAILS(EVERLEAF_OTHER_POOL, "there", everleaf_batch_put(batch, there, "k", 1, "v", 1));
    DO(everleaf_txn_begin(db, 0, 0, &txn));
    FAILS(EVERLEAF_OTHER_POOL, "there", everleaf_txn_get(txn, there, "k", 1, buf, 4, NULL));
    DO(everleaf_snapshot_new(db, &snapshot));
    FAILS(EVERLEAF_OTHER_POOL, "there", everleaf_snapshot_of(snapshot, there, &none));
    EXPECT(none == NULL);
    everleaf_tree_free(there);
    everleaf_batch_free(batch);
    everleaf_txn_free(txn);
    everleaf_snapshot_free(snapshot);
    everleaf_db_free(two);
}

/* A struct of an earlier and of a later header. */
static void struct_sizes(void) {
    struct {
        everleaf_stats stats;
        unsigned char more[64];
    } later;
    memset(&later, 0xAB, sizeof later);
    later.stats.size = sizeof later;
    DO(everleaf_db_stats(db, &later.stats));
    EXPECT(later.stats.size == sizeof later.stats && later.more[0] == 0xAB);
    memset(&later, 0xAB, sizeof later);
    later.stats.size = offsetof(everleaf_stats, file_bytes);
    DO(everleaf_db_stats(db, &later.stats));
    EXPECT(later.stats.page_bytes == 4096 && later.stats.file_bytes == 0xABABABABABABABABu);
    later.stats.size = 3;
    FAILS(EVERLEAF_INVALID, "a size of 3 bytes", everleaf_db_stats(db, &later.stats));
}

/* The old values of a snapshot are lost half-way: of one pair, and of all. */
static void too_old(const char *folder) {
    everleaf_options *o = everleaf_options_new();
    everleaf_db *other;
    everleaf_tree *live, *then;
    everleaf_snapshot *snapshot, *newer[20];
    everleaf_scan *scan;
    static char large[400000], buf[100];
    size_t pairs, used, needed, i;
    char key[2] = "a";
    DO(everleaf_options_snapshot_memory(o, 1 << 20));
    DO(everleaf_open(in_folder(folder, "old.ever"), o, &other));
    DO(everleaf_tree_create(other, "t", &live));
    for (key[0] = 'a'; key[0] <= 'e'; key[0]++) DO(everleaf_put(live, key, 1, "v", 1));
    DO(everleaf_put(live, "c", 1, large, sizeof large));
    DO(everleaf_snapshot_new(other, &snapshot));
    DO(everleaf_snapshot_tree(snapshot, "t", &then));
    DO(everleaf_put(live, "c", 1, "new", 3));
    DO(everleaf_scan_new(then, NULL, 0, NULL, 0, 0, &scan));
    DO(everleaf_scan_fill(scan, buf, sizeof buf, &pairs, &used, &needed));
    EXPECT(pairs == 2 && used == 20 && buf[8] == 'a' && buf[18] == 'b');
    FAILS(EVERLEAF_SNAPSHOT_TOO_OLD, "too old", everleaf_scan_fill(scan, buf, sizeof buf, &pairs, &used, &needed));
    EXPECT(pairs == 0 && used == 0 && needed == 0);
    DO(everleaf_scan_fill(scan, buf, sizeof buf, &pairs, &used, &needed));
    EXPECT(pairs == 2 && buf[8] == 'd' && buf[18] == 'e');
    EXPECT(everleaf_scan_fill(scan, buf, sizeof buf, &pairs, &used, &needed) == EVERLEAF_NOT_FOUND);
    everleaf_scan_free(scan);
    DO(everleaf_scan_new(then, NULL, 0, NULL, 0, 0, &scan));
    DO(everleaf_scan_fill(scan, buf, 15, &pairs, &used, &needed));
    EXPECT(pairs == 1);
    /* Each of these is an old value that the first snapshot keeps. */
    for (i = 0; i < 20; i++) {
        char later[3] = {'z', 0, 0};
        later[1] = (char)i;
        DO(everleaf_put(live, later, 2, large, 200000));
        DO(everleaf_snapshot_new(other, &newer[i]));
        DO(everleaf_put(live, later, 2, "", 0));
    }
    /* The scan has come to this pair before. */
    DO(everleaf_scan_fill(scan, buf, 15, &pairs, &used, &needed));
    EXPECT(pairs == 1 && buf[8] == 'b');
    FAILS(EVERLEAF_SNAPSHOT_TOO_OLD, "too old", everleaf_scan_fill(scan, buf, 15, &pairs, &used, &needed));
    FAILS(EVERLEAF_SNAPSHOT_TOO_OLD, "too old", everleaf_scan_fill(scan, buf, 15, &pairs, &used, &needed));
    everleaf_scan_free(scan);
    for (i = 0; i < 20; i++) everleaf_snapshot_free(newer[i]);
    everleaf_snapshot_free(snapshot);
    everleaf_tree_free(then);
    everleaf_tree_free(live);
    everleaf_db_free(other);
    everleaf_options_free(o);
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    DO(everleaf_open(in_folder(argv[1], "misuse.ever"), NULL, &db));
    DO(everleaf_tree_create(db, "t", &tree));
    pointers();
    names();
    lengths();
    wild_options(argv[1]);
    other_pool();
    struct_sizes();
    too_old(argv[1]);
    places(argv[1]);
    everleaf_tree_free(tree);
    everleaf_db_free(db);
    return 0;
}
