/**
 * Everleaf: an embedded, crash-safe, ordered key-value store. A pool is one file with named trees; begin at {@link
 * io.everleaf.Db}.
 */
package io.everleaf;
