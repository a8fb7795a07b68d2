package io.everleaf;

import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Random;

/** Helpers of several tests. */
final class Help {
    /** As the store compares keys. */
    static final Comparator<byte[]> ORDER = Arrays::compareUnsigned;

    private Help() {}

    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String s(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /** Random numbers of the seed that EVERLEAF_SEED gives; a test that fails has printed it. */
    static Random random(String test) {
        String given = System.getenv("EVERLEAF_SEED");
        long seed = given == null ? 1 : Long.parseLong(given);
        System.out.println(test + ": run it again: EVERLEAF_SEED=" + seed + " bindings/java/run.sh test -Dtest=" + test);
        return new Random(seed);
    }

    static byte[] bytes(Random random, int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    /** A number of eight bytes, in the order of numbers. */
    static byte[] number(long number) {
        return java.nio.ByteBuffer.allocate(8).putLong(number).array();
    }

    static long number(byte[] bytes) {
        return java.nio.ByteBuffer.wrap(bytes).getLong();
    }

    /** Expects an exception of exactly this class with this code. */
    static <E extends EverleafException> E fails(
            Class<E> type, ErrorCode code, org.junit.jupiter.api.function.Executable run) {
        E failure = assertThrows(type, run);
        org.junit.jupiter.api.Assertions.assertEquals(type, failure.getClass());
        org.junit.jupiter.api.Assertions.assertEquals(code, failure.code(), failure.getMessage());
        org.junit.jupiter.api.Assertions.assertFalse(failure.getMessage().isBlank());
        return failure;
    }

    /** Mounts a file system in memory, or leaves the test where the rights for it are missing. */
    static java.nio.file.Path mount(java.nio.file.Path folder, String options) throws Exception {
        java.nio.file.Files.createDirectory(folder);
        Process mount = new ProcessBuilder("mount", "-t", "tmpfs", "-o", options, "none", folder.toString())
                .redirectErrorStream(true)
                .start();
        mount.getInputStream().readAllBytes();
        boolean isMounted = mount.waitFor() == 0;
        if (!isMounted) {
            System.out.println("skipped: no tmpfs can be mounted here");
        }
        org.junit.jupiter.api.Assumptions.assumeTrue(isMounted);
        return folder;
    }

    static void unmount(java.nio.file.Path folder) throws Exception {
        new ProcessBuilder("umount", folder.toString()).start().waitFor();
    }
}
