package io.everleaf;

/** When a write is durable. */
public enum Durability {
    /** As {@link Options#durability} says. */
    AS_OPENED,
    /** On disk one interval and two syncs of the disk after it returned. */
    BUFFERED,
    /** On disk when it returns. */
    SYNC
}
