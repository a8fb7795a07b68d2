package io.everleaf;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** Texts, paths and packed pieces between Java and the library. */
final class Texts {
    private Texts() {}

    /** A name in UTF-8. */
    static byte[] bytes(String text) {
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(java.nio.CharBuffer.wrap(text));
            byte[] array = new byte[bytes.remaining()];
            bytes.get(array);
            return array;
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("the name has half a surrogate pair", e);
        }
    }

    static String string(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** The bytes of a path, whatever the locale is: strings of paths lose bytes that the locale does not know. */
    static byte[] path(Path path) {
        if (path.getFileSystem() != FileSystems.getDefault()) {
            throw new IllegalArgumentException("a pool is a file of the system, and " + path + " is not");
        }
        String raw = path.toUri().getRawPath();
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(raw.length());
        for (int at = 0; at < raw.length(); at++) {
            char one = raw.charAt(at);
            if (one == '%') {
                bytes.write(Integer.parseInt(raw.substring(at + 1, at + 3), 16));
                at += 2;
            } else {
                bytes.write(one);
            }
        }
        byte[] array = bytes.toByteArray();
        // A folder's ends with a slash.
        boolean folder = array.length > 1 && array[array.length - 1] == '/';
        return folder ? java.util.Arrays.copyOf(array, array.length - 1) : array;
    }

    /** Takes pieces apart that each come behind their length. */
    static List<byte[]> unpack(byte[] packed) {
        List<byte[]> pieces = new ArrayList<>();
        ByteBuffer rest = ByteBuffer.wrap(packed);
        while (rest.hasRemaining()) {
            byte[] piece = new byte[rest.getInt()];
            rest.get(piece);
            pieces.add(piece);
        }
        return pieces;
    }

    /** Puts pieces one behind the other, each behind its length. */
    static byte[] pack(Collection<byte[]> pieces) {
        long length = 0;
        for (byte[] piece : pieces) {
            length += 4 + piece.length;
        }
        if (length > Integer.MAX_VALUE - 8) {
            throw EverleafException.invalid("the keys have " + length + " bytes, which do not fit an array of Java");
        }
        ByteBuffer packed = ByteBuffer.allocate((int) length);
        for (byte[] piece : pieces) {
            packed.putInt(piece.length).put(piece);
        }
        return packed.array();
    }

    /** Takes values apart that each come behind their length, or behind -1 if there is none. */
    static List<byte[]> values(byte[] packed, int count) {
        List<byte[]> values = new ArrayList<>(count);
        ByteBuffer rest = ByteBuffer.wrap(packed);
        while (rest.hasRemaining()) {
            int length = rest.getInt();
            byte[] value = length < 0 ? null : new byte[length];
            if (value != null) {
                rest.get(value);
            }
            values.add(value);
        }
        return values;
    }

    static List<String> strings(byte[] packed) {
        List<String> strings = new ArrayList<>();
        for (byte[] piece : unpack(packed)) {
            strings.add(string(piece));
        }
        return strings;
    }

    /** A pair, or null. */
    static Pair pair(byte[] packed) {
        if (packed == null) {
            return null;
        }
        List<byte[]> pieces = unpack(packed);
        return new Pair(pieces.get(0), pieces.get(1));
    }

    /** A time in nanoseconds; one that is too long for a number is as good as for ever. */
    static long nanos(Duration time) {
        try {
            return Math.min(time.toNanos(), Long.MAX_VALUE / 2);
        } catch (ArithmeticException tooLong) {
            return time.isNegative() ? 0 : Long.MAX_VALUE / 2;
        }
    }

    static long micros(Duration time) {
        return Math.max(0, nanos(time) / 1_000);
    }
}
