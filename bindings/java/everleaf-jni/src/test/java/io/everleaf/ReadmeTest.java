package io.everleaf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The example of the README is a program. */
class ReadmeTest {
    @TempDir
    Path folder;

    @Test
    void theExampleRuns() throws Exception {
        String readme = Files.readString(Path.of("../README.md"));
        Matcher block = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL).matcher(readme);
        assertTrue(block.find());
        Files.writeString(folder.resolve("Example.java"), block.group(1));
        String java = System.getProperty("java.home") + "/bin/java";
        Process process = new ProcessBuilder(
                        List.of(java, "-Xmx64m", "-cp", System.getProperty("java.class.path"), "Example.java"))
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes());
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        assertEquals("2026-11-20/0001 2 chairs\n", said);
        assertTrue(Files.exists(folder.resolve("sales.ever")));
    }
}
