package com.duetime.bench;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.topic.TopicValidator;

/**
 * RocketMQ as the benchmark uses it: one topic, one producer and one consumer group. A message is acknowledged after its
 * handler, but the group's offsets are written every 5 s (persistConsumerOffsetInterval): what was done since then is
 * delivered again after a kill. A message that waits can't be moved: the broker has no call for it.
 *
 * <p>Settings, everything else at its default: as many consuming threads as there are handlers ("Best practice" of its
 * documentation), and a send timeout that a busy broker does not exceed. The broker's are in bench/server.
 */
abstract class RocketMQ implements Delayed {
    private static final String TOPIC = "meals";
    private static final String GROUP = "bench-workers";
    private static final int QUEUES = 8; // of a topic that the broker makes by itself
    private static final int SEND_TIMEOUT_MILLIS = 30_000;
    private static final long STOP_LIMIT_MILLIS = 8_000;
    private static final long KNOWN_LIMIT_MILLIS = 60_000;
    private static final long RETRY_MILLIS = 100;

    private final Env env;
    private final DefaultMQProducer producer = new DefaultMQProducer("bench-producers");
    private DefaultMQPushConsumer consumer; // null until the work began

    RocketMQ(Env env) throws Exception {
        this.env = env;
        producer.setNamesrvAddr(env.rocketmq());
        producer.setSendMsgTimeout(SEND_TIMEOUT_MILLIS);
        producer.start();
        makeTopic();
    }

    /**
     * A consumer of a topic that is made later would learn of it after 30 s. A broker whose first call to the name server
     * fails, as on a busy machine, calls again after 10 s; until then nobody knows of it.
     */
    @SuppressWarnings("deprecation") // an operator should make topics
    private void makeTopic() throws Exception {
        for (long deadline = System.currentTimeMillis() + KNOWN_LIMIT_MILLIS; ; Thread.sleep(RETRY_MILLIS)) {
            try {
                producer.createTopic(TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC, TOPIC, QUEUES, Map.of());
                return;
            } catch (MQClientException e) {
                if (System.currentTimeMillis() > deadline) {
                    throw e;
                }
            }
        }
    }

    /** Runs the job, or sees to it that it is delivered once more. */
    abstract void deliver(Job job, Handler handler) throws Exception;

    final Message message(Job job) {
        return new Message(TOPIC, job.encode().getBytes(StandardCharsets.UTF_8));
    }

    final void send(Message message) throws Exception {
        Sending.check(producer.send(message));
    }

    @Override
    public void work(Handler handler) throws Exception {
        consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(env.rocketmq());
        consumer.setConsumeThreadMin(env.workers());
        consumer.setConsumeThreadMax(env.workers());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(STOP_LIMIT_MILLIS);
        consumer.subscribe(TOPIC, "*");
        consumer.registerMessageListener(new MessageListenerConcurrently() {
            @Override
            public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> all, ConsumeConcurrentlyContext context) {
                return consume(all, handler);
            }
        });
        consumer.start();
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> all, Handler handler) {
        try {
            for (MessageExt one : all) { // one by default
                deliver(Job.decode(new String(one.getBody(), StandardCharsets.UTF_8)), handler);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        } catch (Exception e) {
            e.printStackTrace();
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
    }

    @Override
    public void close() {
        if (consumer != null) {
            consumer.shutdown();
        }
        producer.shutdown();
    }

    /** Messages that are being sent, a bounded number at a time. The broker takes no batches of delayed messages. */
    final class Sending implements SendCallback {
        private static final int IN_FLIGHT = 256;

        private final Semaphore free = new Semaphore(IN_FLIGHT);
        private final AtomicReference<Throwable> failure = new AtomicReference<>();

        void send(Message message) throws Exception {
            free.acquire();
            producer.send(message, this);
        }

        /** Returns when the broker has taken all. */
        void await() throws Exception {
            free.acquire(IN_FLIGHT);
            if (failure.get() != null) {
                throw new IllegalStateException("send", failure.get());
            }
        }

        @Override
        public void onSuccess(SendResult result) {
            try {
                check(result);
            } catch (IllegalStateException e) {
                failure.compareAndSet(null, e);
            }
            free.release();
        }

        @Override
        public void onException(Throwable e) {
            failure.compareAndSet(null, e);
            free.release();
        }

        /** A message that is stored, but not flushed in time, is a failure here. */
        private static void check(SendResult result) {
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("the broker answered " + result.getSendStatus());
            }
        }
    }
}
