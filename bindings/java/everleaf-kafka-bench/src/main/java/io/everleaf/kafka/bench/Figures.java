package io.everleaf.kafka.bench;

import java.util.Arrays;

/** Figures of one kind, in the order in which they were seen. */
final class Figures {
    private double[] figures = new double[16];
    private int count;

    void add(double figure) {
        if (count == figures.length) {
            figures = Arrays.copyOf(figures, count * 2);
        }
        figures[count++] = figure;
    }

    /** The least figure that so large a part of all is not above. */
    double rank(double part) {
        if (count == 0) {
            throw new IllegalStateException("nothing was measured");
        }
        double[] sorted = Arrays.copyOf(figures, count);
        Arrays.sort(sorted);
        return sorted[Math.max(0, (int) Math.ceil(part * count) - 1)];
    }

    double median() {
        return rank(0.5);
    }

    double most() {
        return rank(1);
    }
}
