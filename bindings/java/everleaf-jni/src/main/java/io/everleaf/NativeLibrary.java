package io.everleaf;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * Finds and loads the native library, once a class loader. It is the file or in the folder that the property {@code
 * everleaf.library.path} names; or it is a resource, which is copied to the folder of {@code everleaf.tmpdir}, by default that
 * for temporary files, and removed from there once it is loaded.
 */
final class NativeLibrary {
    static final String FILE = "libeverleaf_jni.so";
    static final String PATH = "everleaf.library.path";
    static final String TMPDIR = "everleaf.tmpdir";

    /** Bytes of an ELF header up to the number of its machine, and behind that. */
    private static final int HEADER = 20;

    private static final int X86_64 = 62;
    private static final int AARCH64 = 183;

    /** Why it cannot be used, or null. */
    private static final NativeLibraryException FAILURE = load();

    private NativeLibrary() {}

    /** Fails each time if the library could not be loaded. */
    static void expect() {
        if (FAILURE != null) {
            throw new NativeLibraryException(FAILURE.getMessage(), FAILURE);
        }
    }

    private static NativeLibraryException load() {
        try {
            String given = System.getProperty(PATH);
            if (given == null) {
                loadResource();
            } else {
                Path path = Path.of(given);
                loadFile(Files.isDirectory(path) ? path.resolve(FILE) : path, "the property " + PATH + " names " + path);
            }
            expectVersion();
            return null;
        } catch (NativeLibraryException failure) {
            return failure;
        } catch (IOException | RuntimeException | LinkageError failure) {
            return new NativeLibraryException("the native library cannot be loaded: " + failure, failure);
        }
    }

    /** The system and the processor, as resources name them. */
    private static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        return system + "-" + processor();
    }

    private static String processor() {
        String name = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        return name.equals("amd64") ? "x86_64" : name;
    }

    private static void loadResource() throws IOException {
        String name = "META-INF/native/" + platform() + "/" + FILE;
        try (InputStream resource = open(name)) {
            if (resource == null) {
                throw new NativeLibraryException(
                        "there is no native library for " + platform() + ": no resource " + name
                                + "; build it there, and name it by the property " + PATH,
                        null);
            }
            String folder = System.getProperty(TMPDIR, System.getProperty("java.io.tmpdir"));
            Path copy = copy(resource, Path.of(folder));
            try {
                loadFile(copy, "it was copied to " + copy);
            } finally {
                // The system keeps what is loaded.
                Files.deleteIfExists(copy);
            }
        }
    }

    private static InputStream open(String name) {
        ClassLoader loader = NativeLibrary.class.getClassLoader();
        return loader == null ? ClassLoader.getSystemResourceAsStream(name) : loader.getResourceAsStream(name);
    }

    /** A file of its own for each class loader: the virtual machine gives a file to one of them alone. */
    private static Path copy(InputStream resource, Path folder) {
        Path copy = null;
        try {
            copy = Files.createTempFile(folder, "libeverleaf_jni", ".so");
            Files.copy(resource, copy, StandardCopyOption.REPLACE_EXISTING);
            return copy;
        } catch (IOException failure) {
            try {
                if (copy != null) {
                    Files.deleteIfExists(copy);
                }
            } catch (IOException left) {
                failure.addSuppressed(left);
            }
            throw new NativeLibraryException(
                    "the native library cannot be copied to " + folder + ": set the property " + TMPDIR
                            + " to a folder with room, or name an unpacked library by " + PATH + " (" + failure + ")",
                    failure);
        }
    }

    private static void loadFile(Path path, String where) throws IOException {
        if (!Files.isReadable(path)) {
            throw new NativeLibraryException("there is no readable file " + path + ": " + where, null);
        }
        expectProcessor(path, where);
        try {
            System.load(path.toAbsolutePath().toString());
        } catch (UnsatisfiedLinkError failure) {
            throw new NativeLibraryException(why(failure, path, where), failure);
        }
    }

    /** Looks at the header: the linker of the system does not say what the matter is. */
    private static void expectProcessor(Path path, String where) throws IOException {
        byte[] header;
        try (InputStream file = Files.newInputStream(path)) {
            header = file.readNBytes(HEADER);
        }
        boolean isElf = header.length == HEADER && header[0] == 0x7f && header[1] == 'E' && header[2] == 'L'
                && header[3] == 'F';
        if (!isElf) {
            throw new NativeLibraryException("the file " + path + " is no library of Linux: " + where, null);
        }
        int machine = Byte.toUnsignedInt(header[18]) | Byte.toUnsignedInt(header[19]) << 8;
        String built = switch (machine) {
            case X86_64 -> "x86_64";
            case AARCH64 -> "aarch64";
            default -> "machine " + machine;
        };
        if (!built.equals(processor())) {
            throw new NativeLibraryException(
                    "the native library is for " + built + ", and this virtual machine runs on " + processor() + ": " + where,
                    null);
        }
    }

    private static String why(UnsatisfiedLinkError failure, Path path, String where) {
        String text = String.valueOf(failure.getMessage());
        if (text.contains("already loaded in another classloader")) {
            return "another class loader of this virtual machine has loaded " + path
                    + ": put everleaf-jni into a class loader that both share, or do not set " + PATH
                    + " (then each gets a copy of its own)";
        }
        if (text.contains("failed to map segment") || text.contains("Operation not permitted")) {
            return "the system maps no code from the folder of " + path + ", which may be mounted with noexec: set the property "
                    + TMPDIR + " to another folder, or name a library elsewhere by " + PATH;
        }
        return "the native library cannot be loaded: " + text + "; " + where;
    }

    private static void expectVersion() {
        String version;
        try {
            version = Texts.string(Native.version());
        } catch (UnsatisfiedLinkError failure) {
            throw new NativeLibraryException("the library is not that of everleaf-jni", failure);
        }
        if (!version.equals(VERSION)) {
            throw new NativeLibraryException(
                    "the native library has version " + version + ", and the classes have " + VERSION, null);
        }
    }

    /** The version of these classes. */
    static final String VERSION = "0.1.0";
}
