package io.everleaf.kafka.bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/** The folders of stores. */
final class Folders {
    private Folders() {}

    static File make() {
        try {
            return Files.createTempDirectory("everleaf-bench").toFile();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    static void delete(File folder) {
        try (Stream<Path> paths = Files.walk(folder.toPath())) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** The bytes that it takes on the disk: files may have holes, which Java does not see. */
    static long bytes(File folder) {
        try {
            Process process = new ProcessBuilder("du", "-sk", folder.getPath())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            try (BufferedReader said = process.inputReader()) {
                String line = said.readLine();
                if (line == null || process.waitFor() != 0) {
                    throw new IOException("du could not read " + folder);
                }
                return Long.parseLong(line.split("\\s")[0]) << 10;
            }
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
