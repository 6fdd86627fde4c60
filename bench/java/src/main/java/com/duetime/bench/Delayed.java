package com.duetime.bench;

import java.util.List;

/** One system, opened on running servers. Its methods may be called side by side, close last. */
interface Delayed {
    /** Makes the jobs, and returns when all are as durable as the system makes them. */
    void schedule(List<Job> jobs) throws Exception;

    /** Gives the pending job another due time. */
    default void move(Job job) throws Exception {
        throw new UnsupportedOperationException("this system can't move");
    }

    /** Begins to run the handler for each job that becomes due, until close. */
    void work(Handler handler) throws Exception;

    /** Lets what runs finish. */
    void close() throws Exception;

    /** Runs one job. Its exception means that the effect did not commit. */
    interface Handler {
        void run(Job job) throws Exception;
    }
}
