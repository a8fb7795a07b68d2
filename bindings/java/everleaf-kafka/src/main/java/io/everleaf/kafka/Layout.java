package io.everleaf.kafka;

import java.util.Arrays;

/**
 * The meaning of the bytes in a pool. It is in the pool, too: bytes that are read as those of another layout would be wrong values
 * without a word.
 *
 * @param interval the milliseconds of a segment of time; 0 for a store without segments
 */
record Layout(Kind kind, Format format, boolean retainsDuplicates, long interval) {
    private static final byte VERSION = 2;

    enum Kind {
        KEYS("everleaf"),
        WINDOWS("everleaf-window"),
        SESSIONS("everleaf-session");

        /** In the names of metrics. */
        final String scope;

        Kind(String scope) {
            this.scope = scope;
        }
    }

    /** The form that Streams gives its values. */
    enum Format {
        PLAIN,
        TIMESTAMPED,
        HEADERS
    }

    /** A layout of keys and values. */
    static Layout keys(Format format) {
        return new Layout(Kind.KEYS, format, false, 0);
    }

    /** The interval is not part of it: an old pool keeps its own. */
    byte[] bytes() {
        return new byte[] {VERSION, (byte) kind.ordinal(), (byte) format.ordinal(), (byte) (retainsDuplicates ? 1 : 0)};
    }

    static String describe(byte[] layout) {
        if (layout == null || layout.length != 4 || layout[0] != VERSION) {
            return "data of another version of the library (" + Arrays.toString(layout) + ")";
        }
        return "kind " + nameOf(Kind.values(), layout[1]) + " and format " + nameOf(Format.values(), layout[2])
                + (layout[3] == 0 ? "" : " with duplicates");
    }

    private static String nameOf(Enum<?>[] values, int at) {
        return at >= 0 && at < values.length ? values[at].name() : "" + at;
    }
}
