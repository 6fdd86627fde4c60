package com.duetime.bench;

import java.util.List;
import org.apache.rocketmq.common.message.Message;

/**
 * RocketMQ's delay levels: a message waits one of 18 fixed times from the moment at which the broker stores it.
 *
 * <p>That fits services whose delays are among them. So jobs that are due soon are handed over as such a service does
 * it: each one 5 s ahead, by the second level. The broker does all the waiting that remains. Those of one instant are
 * handed over from 5 s before it on, as fast as the broker takes them, and are due as much later as that takes. Jobs
 * that are due more than a minute off, which only stand there, are handed over at once, by the longest level that they
 * have time for; a job that is delivered before it is due is sent on.
 */
final class RocketLevels extends RocketMQ {
    private static final long SECOND = 1000;
    private static final long MINUTE = 60 * SECOND;
    private static final long HOUR = 60 * MINUTE;
    /** The broker's default messageDelayLevel, in ms. The first one is level 1. */
    private static final long[] LEVELS = {
        SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND,
        MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE, 5 * MINUTE, 6 * MINUTE, 7 * MINUTE, 8 * MINUTE, 9 * MINUTE,
        10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR,
    };

    private static final long AHEAD = 5 * SECOND;
    private static final long NEAR = MINUTE;

    RocketLevels(Env env) throws Exception {
        super(env);
    }

    @Override
    public void schedule(List<Job> jobs) throws Exception {
        Sending sending = new Sending();
        for (Job job : jobs) {
            long wait = job.dueMillis() - AHEAD - System.currentTimeMillis();
            if (wait > 0 && wait < NEAR) {
                Thread.sleep(wait);
            }
            sending.send(waiting(job));
        }
        sending.await();
    }

    @Override
    void deliver(Job job, Handler handler) throws Exception {
        if (job.dueMillis() > System.currentTimeMillis()) {
            send(waiting(job));
        } else {
            handler.run(job);
        }
    }

    private Message waiting(Job job) {
        Message message = message(job);
        message.setDelayTimeLevel(level(job.dueMillis() - System.currentTimeMillis()));
        return message;
    }

    /** The longest level that is no longer than what is left, but the first one at least; 0, which is none, if it is due. */
    private static int level(long left) {
        if (left <= 0) {
            return 0;
        }
        int level = 1;
        while (level < LEVELS.length && LEVELS[level] <= left) {
            level++;
        }
        return level;
    }
}
