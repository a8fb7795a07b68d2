package io.everleaf;

import java.util.UUID;

/**
 * Figures of an open pool at one moment.
 *
 * @param pageBytes bytes in a page
 * @param nodeBytes bytes in a node
 * @param fileBytes length of the pool's file
 * @param liveBytes bytes of the file that hold pages, large values and the page table as they are now
 * @param freeBytes bytes of the file that can be used again
 * @param journalFileBytes bytes of the file that are set aside for the journal
 * @param journalBytes bytes of journal that the next open would read after a crash now
 * @param journalWrittenBytes bytes that were written to the journal since this open
 * @param memoryBytes bytes of memory that pages, the page table and large values take
 * @param memoryMostBytes bytes of memory that they may take
 * @param memoryHits how often a page was left in memory because it was used
 * @param memoryMisses how often a page was needed that was not in memory
 * @param memoryEvictions pages that have left memory
 * @param memoryWriteBacks pages that checkpoints have written
 * @param memoryValueBytes bytes of memory that large values take, a part of {@code memoryBytes}
 * @param memoryValueMisses how often a large value was needed that was not in memory
 * @param memoryValueEvictions large values that have left memory
 * @param snapshots open snapshots, and open transactions that have read
 * @param snapshotValues old values that are kept for these
 * @param snapshotBytes bytes of memory that the old values take
 * @param snapshotsGivenUp snapshots and transactions that have expired since this open
 * @param transactionBytes bytes of memory that transactions and batches under way take
 * @param cursorBytes bytes of memory that cursors and scans take
 * @param transactions transactions that were committed since this open and had something to write
 * @param conflicts commits since this open that failed because others were in the way
 * @param droppedTrees trees that were dropped or cleared, and whose space is not free yet
 * @param epoch the current epoch; 0 on persistent memory
 * @param durableEpoch the last epoch that is on disk; 0 on persistent memory
 * @param openGeneration how many opens have written to the pool
 * @param uuid the pool's identity
 */
public record Stats(
        long pageBytes,
        long nodeBytes,
        long fileBytes,
        long liveBytes,
        long freeBytes,
        long journalFileBytes,
        long journalBytes,
        long journalWrittenBytes,
        long memoryBytes,
        long memoryMostBytes,
        long memoryHits,
        long memoryMisses,
        long memoryEvictions,
        long memoryWriteBacks,
        long memoryValueBytes,
        long memoryValueMisses,
        long memoryValueEvictions,
        long snapshots,
        long snapshotValues,
        long snapshotBytes,
        long snapshotsGivenUp,
        long transactionBytes,
        long cursorBytes,
        long transactions,
        long conflicts,
        long droppedTrees,
        long epoch,
        long durableEpoch,
        long openGeneration,
        UUID uuid) {

    /** In the order of the library. */
    static Stats of(long[] n) {
        return new Stats(
                n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14], n[15],
                n[16], n[17], n[18], n[19], n[20], n[21], n[22], n[23], n[24], n[25], n[26], n[27], n[28],
                new UUID(n[29], n[30]));
    }
}
