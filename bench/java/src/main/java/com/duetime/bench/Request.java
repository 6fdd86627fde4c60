package com.duetime.bench;

import java.util.List;
import java.util.stream.LongStream;

/** A Request of bench/protocol. */
record Request(String op, long first, long count, long due, long step, int callers, double seconds, boolean effect) {
    List<Job> jobs() {
        return LongStream.range(0, count).mapToObj(n -> new Job(first + n, due + n * step)).toList();
    }

    /**
     * The n-th job to be moved. The numbers go round while the due times go on, and jump: what is moved is anywhere
     * among what is pending, not always what was made first.
     */
    Job moved(long n) {
        return new Job(first + n * JUMP % count, due + n * step);
    }

    private static final long JUMP = 7919; // a prime, so that a round has every number
}
