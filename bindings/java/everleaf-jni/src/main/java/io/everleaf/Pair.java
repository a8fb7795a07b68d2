package io.everleaf;

import java.util.Arrays;

/** A key and its value. */
public record Pair(byte[] key, byte[] value) {
    /** Whether both hold the same bytes. */
    @Override
    public boolean equals(Object other) {
        return other instanceof Pair pair && Arrays.equals(key, pair.key) && Arrays.equals(value, pair.value);
    }

    @Override
    public int hashCode() {
        return 31 * Arrays.hashCode(key) + Arrays.hashCode(value);
    }
}
