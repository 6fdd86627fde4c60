package com.duetime.bench;

import java.util.List;
import org.apache.rocketmq.common.message.Message;

/** RocketMQ's timer messages: each names the moment of its delivery. The broker has a wheel of such moments on disk. */
final class RocketTimers extends RocketMQ {
    RocketTimers(Env env) throws Exception {
        super(env);
    }

    @Override
    public void schedule(List<Job> jobs) throws Exception {
        Sending sending = new Sending();
        for (Job job : jobs) {
            Message message = message(job);
            message.setDeliverTimeMs(job.dueMillis());
            sending.send(message);
        }
        sending.await();
    }

    @Override
    void deliver(Job job, Handler handler) throws Exception {
        handler.run(job);
    }
}
