package io.everleaf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How the native library is found, and the sentences for where it is not. */
class LibraryTest {
    @TempDir
    Path folder;

    /** A program that loads the library, in a virtual machine of its own; what it says. */
    private String say(String... settings) throws Exception {
        List<String> line = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx64m"));
        line.addAll(List.of(settings));
        line.addAll(List.of("-cp", System.getProperty("java.class.path"), Version.class.getName()));
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        return said.strip();
    }

    /** Says the version, or twice why there is none. */
    static final class Version {
        private Version() {}

        public static void main(String[] arguments) {
            for (int n = 0; n < 2; n++) {
                try {
                    System.out.println(Db.version());
                } catch (NativeLibraryException failure) {
                    System.out.println(failure.code() + ": " + failure.getMessage());
                }
            }
        }
    }

    private void says(String expected, String... settings) throws Exception {
        String said = say(settings);
        // A virtual machine may have warned of the file.
        List<String> lines = said.lines().filter(line -> !line.contains("stack guard") && !line.contains("execstack")).toList();
        assertEquals(2, lines.size(), said);
        assertTrue(lines.get(0).contains(expected), said);
        assertEquals(lines.get(0), lines.get(1));
    }

    private Path unpack() throws IOException {
        String name = "META-INF/native/linux-" + System.getProperty("os.arch").replace("amd64", "x86_64") + "/"
                + NativeLibrary.FILE;
        Path library = folder.resolve(NativeLibrary.FILE);
        try (InputStream resource = NativeLibrary.class.getClassLoader().getResourceAsStream(name)) {
            Files.copy(resource, library);
        }
        return library;
    }

    @Test
    void aFileOrAFolderCanBeNamed() throws Exception {
        Path library = unpack();
        says(NativeLibrary.VERSION, "-Deverleaf.library.path=" + library);
        says(NativeLibrary.VERSION, "-Deverleaf.library.path=" + folder);
        says("NO_LIBRARY: there is no readable file", "-Deverleaf.library.path=" + folder.resolve("none.so"));
    }

    @Test
    void theCopyIsRemoved() throws Exception {
        Path own = Files.createDirectory(folder.resolve("own"));
        says(NativeLibrary.VERSION, "-Deverleaf.tmpdir=" + own);
        try (var files = Files.list(own)) {
            assertEquals(0, files.count());
        }
        says("cannot be copied to", "-Deverleaf.tmpdir=" + folder.resolve("none"));
    }

    @Test
    void anotherProcessor() throws Exception {
        says("there is no native library for linux-riscv64", "-Dos.arch=riscv64");
        byte[] library = Files.readAllBytes(unpack());
        library[18] = (byte) (library[18] == 62 ? 183 : 62);
        Path other = folder.resolve("other.so");
        Files.write(other, library);
        says("and this virtual machine runs on", "-Deverleaf.library.path=" + other);
        Files.writeString(other, "no library");
        says("is no library of Linux", "-Deverleaf.library.path=" + other);
        // A header, and nothing behind it.
        Files.write(other, java.util.Arrays.copyOf(Files.readAllBytes(unpack2()), 20));
        says("the native library cannot be loaded", "-Deverleaf.library.path=" + other);
    }

    private Path unpack2() throws IOException {
        Files.delete(folder.resolve(NativeLibrary.FILE));
        return unpack();
    }

    @Test
    void aFolderWithoutExecution() throws Exception {
        Path mount = Help.mount(folder.resolve("noexec"), "noexec,size=16m");
        try {
            says("may be mounted with noexec", "-Deverleaf.tmpdir=" + mount);
        } finally {
            Help.unmount(mount);
        }
    }

    /** Loads the classes anew. */
    private static URLClassLoader loader() throws IOException {
        List<URL> urls = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            urls.add(Path.of(entry).toUri().toURL());
        }
        return new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }

    private static String version(ClassLoader loader) throws Throwable {
        Class<?> db = loader.loadClass("io.everleaf.Db");
        assertNotSame(Db.class, db);
        try {
            return (String) db.getMethod("version").invoke(null);
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }

    @Test
    void twoClassLoadersHaveACopyEach() throws Throwable {
        try (URLClassLoader one = loader();
                URLClassLoader two = loader()) {
            assertEquals(NativeLibrary.VERSION, version(one));
            assertEquals(NativeLibrary.VERSION, version(two));
        }
        System.gc();
        assertEquals(NativeLibrary.VERSION, Db.version());
    }

    @Test
    void twoClassLoadersCannotShareAFile() throws Throwable {
        System.setProperty("everleaf.library.path", unpack().toString());
        try (URLClassLoader one = loader();
                URLClassLoader two = loader()) {
            assertEquals(NativeLibrary.VERSION, version(one));
            Throwable failure = org.junit.jupiter.api.Assertions.assertThrows(Throwable.class, () -> version(two));
            assertTrue(failure.getMessage().contains("another class loader"), failure.getMessage());
            assertEquals(NativeLibrary.VERSION, version(one));
        } finally {
            System.clearProperty("everleaf.library.path");
        }
    }
}
