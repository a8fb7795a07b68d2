/* large FOLDER BYTES: a value of so many bytes, written by pieces and read by pieces. 4,294,967,295 is the most. */
#include "check.h"

#define PIECE ((size_t)1 << 20)

static unsigned char piece[PIECE], found[PIECE];

static void fill(uint64_t offset) {
    size_t i;
    for (i = 0; i < PIECE; i += 8) {
        uint64_t word = (offset + i) * 0x9E3779B97F4A7C15u;
        memcpy(piece + i, &word, 8);
    }
}

int main(int argc, char **argv) {
    everleaf_options *o = everleaf_options_new();
    everleaf_db *db;
    everleaf_tree *tree;
    everleaf_writer *writer;
    uint64_t bytes, offset, len;
    size_t read;
    EXPECT(argc == 3);
    bytes = strtoull(argv[2], NULL, 10);
    DO(everleaf_options_memory(o, 64 << 20));
    DO(everleaf_open(in_folder(argv[1], "large.ever"), o, &db));
    DO(everleaf_tree_create(db, "t", &tree));
    DO(everleaf_writer_new(tree, "k", 1, bytes, &writer));
    for (offset = 0; offset < bytes; offset += PIECE) {
        fill(offset);
        DO(everleaf_writer_write(writer, piece, bytes - offset < PIECE ? (size_t)(bytes - offset) : PIECE));
    }
    EXPECT(everleaf_contains(tree, "k", 1) == EVERLEAF_NOT_FOUND);
    DO(everleaf_writer_finish(writer));
    everleaf_writer_free(writer);
    DO(everleaf_value_len(tree, "k", 1, &len));
    EXPECT(len == bytes);
    for (offset = 0; offset < bytes; offset += PIECE) {
        size_t wanted = bytes - offset < PIECE ? (size_t)(bytes - offset) : PIECE;
        fill(offset);
        DO(everleaf_read_at(tree, "k", 1, offset, found, PIECE, &read));
        EXPECT(read == wanted && memcmp(found, piece, wanted) == 0);
    }
    DO(everleaf_read_at(tree, "k", 1, bytes, found, PIECE, &read));
    EXPECT(read == 0);
    everleaf_tree_free(tree);
    DO(everleaf_close(db));
    everleaf_db_free(db);
    everleaf_options_free(o);
    printf("%s bytes\n", argv[2]);
    return 0;
}
