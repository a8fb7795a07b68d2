// A small persistent tree: a chain of leaves, whose pairs are in no order, and of which a bitmap says which of them count. It
// changes its memory by the three macros alone, and needs no log:
//
//     leaf   | bitmap | next | low | - - - - - |   a line
//            | pair 0 | pair 1 | pair 2 | pair 3 |   another one; a pair is a key and its value
//
// An insert writes a pair where the bitmap has a 0, and makes it durable; then the bit, 8 bytes, commits. A new value is a store
// of 8 bytes, a removal clears a bit. A split builds a new leaf and makes it durable, links it behind the old one, which commits
// and then clears the bits of what has moved. After a crash between these two, open clears them: keys of a leaf are below its
// right neighbour's. A page that is used for a leaf is one that the chain does not lead to, so nothing leaks. Memory that is
// all zero is an empty tree.
//
// `Careful`: whether a pair is durable before its bit is. If not, the bit may be in memory when the pair is not.
#ifndef LEAVES_HPP
#define LEAVES_HPP

#include "everleaf_recorder.h"

#include <cstddef>
#include <vector>

template <bool Careful> class leaves {
    static constexpr size_t pairs = 4;

    struct leaf {
        uint64_t bitmap, next, low, unused[5];
        struct {
            uint64_t key, value;
        } pair[pairs];
    };
    static_assert(sizeof(leaf) == 128, "two lines");

    leaf *area;
    std::vector<bool> used;

public:
    leaves(void *memory, size_t bytes) : area(static_cast<leaf *>(memory)), used(bytes / sizeof(leaf)) {
        leaf *at = &area[0];
        for (;;) {
            used[static_cast<size_t>(at - area)] = true;
            if (at->next == 0) break;
            uint64_t kept = at->bitmap;
            for (size_t i = 0; i < pairs; i++)
                if (at->pair[i].key >= area[at->next].low) kept &= ~(uint64_t(1) << i);
            if (kept != at->bitmap) commit(at, kept);
            at = &area[at->next];
        }
    }

    const uint64_t *find(uint64_t key) const {
        const leaf *at = leaf_of(key);
        const size_t i = place(at, key);
        return i < pairs ? &at->pair[i].value : nullptr;
    }

    // Says whether there was room.
    bool put(uint64_t key, uint64_t value) {
        leaf *at = leaf_of(key);
        size_t i = place(at, key);
        if (i < pairs) {
            EL_STORE(&at->pair[i].value, value);
            persist(&at->pair[i].value);
            return true;
        }
        if (at->bitmap == (uint64_t(1) << pairs) - 1) {
            if (!split(at)) return false;
            at = leaf_of(key);
        }
        for (i = 0; at->bitmap >> i & 1;) i++;
        EL_STORE(&at->pair[i].key, key);
        EL_STORE(&at->pair[i].value, value);
        if (Careful) {
            persist(&at->pair[i]);
            commit(at, at->bitmap | uint64_t(1) << i);
        } else {
            // Both are flushed, and one fence will do, surely?
            EL_FLUSH(&at->pair[i]);
            commit(at, at->bitmap | uint64_t(1) << i);
        }
        return true;
    }

    bool remove(uint64_t key) {
        leaf *at = leaf_of(key);
        const size_t i = place(at, key);
        if (i == pairs) return false;
        commit(at, at->bitmap & ~(uint64_t(1) << i));
        return true;
    }

private:
    static void persist(const void *place) {
        EL_FLUSH(place);
        EL_FENCE();
    }

    static void commit(leaf *at, uint64_t bitmap) {
        EL_STORE(&at->bitmap, bitmap);
        persist(&at->bitmap);
    }

    leaf *leaf_of(uint64_t key) const {
        leaf *at = area;
        while (at->next != 0 && key >= area[at->next].low) at = &area[at->next];
        return at;
    }

    // Where a leaf has a key, or `pairs`.
    static size_t place(const leaf *at, uint64_t key) {
        size_t i = 0;
        while (i < pairs && !((at->bitmap >> i & 1) && at->pair[i].key == key)) i++;
        return i;
    }

    bool split(leaf *full) {
        size_t free = 0;
        while (free < used.size() && used[free]) free++;
        if (free == used.size()) return false;
        uint64_t middle = 0, moved = 0;
        for (size_t i = 0; i < pairs; i++) {
            size_t below = 0;
            for (size_t j = 0; j < pairs; j++) below += full->pair[j].key < full->pair[i].key;
            if (below == pairs / 2) middle = full->pair[i].key;
        }
        leaf *right = &area[free];
        for (size_t i = 0; i < pairs; i++) {
            if (full->pair[i].key < middle) continue;
            moved |= uint64_t(1) << i;
            EL_STORE(&right->pair[i].key, full->pair[i].key);
            EL_STORE(&right->pair[i].value, full->pair[i].value);
        }
        EL_STORE(&right->low, middle);
        EL_STORE(&right->next, full->next);
        EL_STORE(&right->bitmap, moved);
        EL_FLUSH(&right->bitmap);
        persist(&right->pair[0]);
        EL_STORE(&full->next, free);
        persist(&full->next);
        used[free] = true;
        commit(full, full->bitmap & ~moved);
        return true;
    }
};

#endif
