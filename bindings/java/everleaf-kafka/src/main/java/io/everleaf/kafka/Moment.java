package io.everleaf.kafka;

import io.everleaf.ReadTree;
import java.util.NavigableMap;

/** A store as it is, or as the last commit has left it. */
interface Moment {
    /** The trees with data, by the number of their segment of time. */
    NavigableMap<Long, ? extends ReadTree> trees();

    /** The latest time of any record, or -1. */
    long time();
}
