package io.everleaf;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * The trees and pages of a pool, counted by {@link Db#count}.
 *
 * @param trees the trees, in bytewise order of their names
 * @param pages how many pages hold a kind of thing, by its name; free pages are not listed
 */
public record Counts(List<OfTree> trees, Map<String, Long> pages) {
    private static final int PIECES = 7;

    /**
     * The figures of one tree.
     *
     * @param name the tree's name
     * @param entries how many pairs it holds
     * @param depth levels from the root to a leaf; 1 if the tree is a single leaf
     * @param nodesByLevel how many nodes each level has, the leaves first
     * @param fill the share of the leaves' room that is in use, 0 to 1
     * @param keyBytes the length of all keys
     * @param valueBytes the length of all values
     */
    public record OfTree(
            String name,
            long entries,
            int depth,
            List<Long> nodesByLevel,
            double fill,
            long keyBytes,
            long valueBytes) {}

    /** In the order of the library. */
    static Counts of(List<String> pieces) {
        int end = 1 + PIECES * Integer.parseInt(pieces.get(0));
        List<OfTree> trees = new ArrayList<>();
        for (int at = 1; at < end; at += PIECES) {
            List<Long> levels = Stream.of(pieces.get(at + 3).split(" "))
                    .filter(level -> !level.isEmpty())
                    .map(Long::valueOf)
                    .toList();
            trees.add(new OfTree(
                    pieces.get(at),
                    Long.parseLong(pieces.get(at + 1)),
                    Integer.parseInt(pieces.get(at + 2)),
                    levels,
                    Double.parseDouble(pieces.get(at + 4)),
                    Long.parseLong(pieces.get(at + 5)),
                    Long.parseLong(pieces.get(at + 6))));
        }
        Map<String, Long> pages = new TreeMap<>();
        for (int at = end; at < pieces.size(); at += 2) {
            pages.put(pieces.get(at), Long.parseLong(pieces.get(at + 1)));
        }
        return new Counts(trees, pages);
    }
}
