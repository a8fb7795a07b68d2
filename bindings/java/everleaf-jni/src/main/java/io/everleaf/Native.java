package io.everleaf;

import java.nio.ByteBuffer;
import java.util.function.UnaryOperator;

/**
 * The native methods. Each gets an object before the number of its handle, so that it is not collected during the call. A
 * number that stands for nothing any more is an exception, whatever the order of closes. {@link NativeLibrary} comes first.
 */
final class Native {
    private Native() {}

    static native byte[] version();

    static native boolean free(long number);

    static native long poolOpen(byte[] path, long[] settings);

    static native long budgetNew(long bytes);

    static native long budgetOfProcess();

    static native long budgetBytes(Object budget, long number);

    static native long budgetUsed(Object budget, long number);

    static native long budgetPools(Object budget, long number);

    static native void poolClose(Object db, long number);

    static native void poolAbandon(Object db, long number);

    static native void poolSync(Object db, long number);

    static native void poolCheckpoint(Object db, long number);

    static native long poolEndEpoch(Object db, long number);

    static native long poolEpoch(Object db, long number);

    static native long poolDurableEpoch(Object db, long number);

    static native long poolPendingBytes(Object db, long number);

    static native boolean poolWaitDurable(Object db, long number, long epoch, long microseconds);

    static native long poolBackup(Object db, long number, byte[] to);

    static native long[] poolCompact(Object db, long number);

    static native byte[] poolCheck(Object db, long number);

    static native byte[] poolCount(Object db, long number);

    static native long[] poolStats(Object db, long number);

    static native long poolTree(Object db, long number, byte[] name, int durability, boolean create);

    static native boolean poolDropTree(Object db, long number, byte[] name);

    static native boolean poolRenameTree(Object db, long number, byte[] name, byte[] to);

    static native byte[] poolTreeNames(Object db, long number);

    static native long poolSnapshot(Object db, long number);

    static native long poolBatch(Object db, long number, int durability);

    static native long poolBegin(Object db, long number, boolean snapshot, int durability, long locks);

    static native long poolAttempts(Object db, long number, int most);

    static native byte[] readGet(Object tree, long number, byte[] key);

    static native byte[] readGetMany(Object tree, long number, byte[] keys);

    static native boolean readContains(Object tree, long number, byte[] key);

    static native long readValueLen(Object tree, long number, byte[] key);

    static native int readAt(Object tree, long number, byte[] key, long offset, byte[] into, int at, int length);

    static native long readLen(Object tree, long number);

    static native boolean readIsEmpty(Object tree, long number);

    static native byte[] readEdge(Object tree, long number, int which, byte[] key);

    static native long readCursor(Object tree, long number);

    static native long readScan(Object tree, long number, byte[] from, byte[] to, int flags);

    static native void treePut(Object tree, long number, byte[] key, byte[] value);

    static native void treePutFrom(Object tree, long number, byte[] key, Object stream, long length);

    static native void treeDelete(Object tree, long number, byte[] key);

    static native boolean treeInsertNew(Object tree, long number, byte[] key, byte[] value);

    static native boolean treeReplace(Object tree, long number, byte[] key, byte[] value);

    static native byte[] treeTake(Object tree, long number, byte[] key);

    static native void treeUpdate(Object tree, long number, byte[] key, UnaryOperator<byte[]> change);

    static native long treeLoadSorted(Object tree, long number, PackedPairs source);

    static native byte[] treeSwap(Object tree, long number, byte[] key, byte[] value);

    static native boolean treeCompareAndSwap(Object tree, long number, byte[] key, byte[] expected, byte[] value);

    static native long treeRemoveRange(Object tree, long number, byte[] from, byte[] to, int flags);

    static native long treeClear(Object tree, long number);

    static native byte[] treePop(Object tree, long number, boolean last);

    static native void batchPut(Object batch, long number, Object tree, long treeNumber, byte[] key, byte[] value);

    static native void batchDelete(Object batch, long number, Object tree, long treeNumber, byte[] key);

    static native int batchLen(Object batch, long number);

    static native void batchCommit(Object batch, long number);

    static native void batchClear(Object batch, long number);

    static native boolean cursorGo(Object cursor, long number, int to, byte[] key);

    static native byte[] cursorKey(Object cursor, long number);

    static native byte[] cursorValue(Object cursor, long number);

    static native long scanFill(Object scan, long number, ByteBuffer buffer, int bytes);

    static native long snapshotTree(Object snapshot, long number, byte[] name);

    static native long snapshotOf(Object snapshot, long number, Object tree, long treeNumber);

    static native byte[] snapshotTreeNames(Object snapshot, long number);

    static native byte[] txnGet(Object transaction, long number, Object tree, long treeNumber, byte[] key);

    static native boolean txnContains(Object transaction, long number, Object tree, long treeNumber, byte[] key);

    static native long txnValueLen(Object transaction, long number, Object tree, long treeNumber, byte[] key);

    static native int txnReadAt(
            Object transaction,
            long number,
            Object tree,
            long treeNumber,
            byte[] key,
            long offset,
            byte[] into,
            int at,
            int length);

    static native long txnLen(Object transaction, long number, Object tree, long treeNumber);

    static native byte[] txnEdge(Object transaction, long number, Object tree, long treeNumber, int which, byte[] key);

    static native void txnPut(Object transaction, long number, Object tree, long treeNumber, byte[] key, byte[] value);

    static native void txnDelete(Object transaction, long number, Object tree, long treeNumber, byte[] key);

    static native boolean txnInsertNew(
            Object transaction, long number, Object tree, long treeNumber, byte[] key, byte[] value);

    static native byte[] txnTake(Object transaction, long number, Object tree, long treeNumber, byte[] key);

    static native boolean txnCompareAndSwap(
            Object transaction, long number, Object tree, long treeNumber, byte[] key, byte[] expected, byte[] value);

    static native long txnRemoveRange(
            Object transaction, long number, Object tree, long treeNumber, byte[] from, byte[] to, int flags);

    static native byte[] txnGetMany(Object transaction, long number, Object tree, long treeNumber, byte[] keys);

    static native long txnCursor(Object transaction, long number, Object tree, long treeNumber);

    static native long txnScan(
            Object transaction, long number, Object tree, long treeNumber, byte[] from, byte[] to, int flags);

    static native void txnCommit(Object transaction, long number);

    static native void txnAbort(Object transaction, long number);

    static native boolean triesCommit(Object db, long number, long transaction);
}
