package io.everleaf.kafka.bench;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** Nanoseconds of some work: of the clock, and of the processor in the thread that has made it. */
record Clock(long wall, long cpu) {
    static final Clock ZERO = new Clock(0, 0);
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    static Clock now() {
        return new Clock(System.nanoTime(), THREADS.getCurrentThreadCpuTime());
    }

    /** The time that the work takes, which runs in this thread. */
    static Clock of(Runnable work) {
        Clock begun = now();
        work.run();
        return now().minus(begun);
    }

    Clock minus(Clock other) {
        return new Clock(wall - other.wall, cpu - other.cpu);
    }

    Clock plus(Clock other) {
        return new Clock(wall + other.wall, cpu + other.cpu);
    }
}
