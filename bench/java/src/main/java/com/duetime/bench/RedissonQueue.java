package com.duetime.bench;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Redisson's RDelayedQueue: a sorted set and a list in Redis. Each client that has opened the queue moves what is due to
 * the queue that workers take from, 100 at a time.
 *
 * <p>take removes a job before its handler runs, so a killed worker's running jobs are lost. A pending job is moved by
 * removing and offering it again: two calls, between which a crash loses it. To remove one, Redis looks at each before it.
 *
 * <p>Settings, everything else at its default: a connection for each worker, as a blocked take occupies one, and a long
 * timeout, since calls queue behind those that look for something.
 */
@SuppressWarnings("deprecation") // RReliableQueue, which it recommends instead, is no part of the open source
final class RedissonQueue implements Delayed {
    private static final String NAME = "bench";
    private static final int IN_FLIGHT = 1000;
    private static final int POOL = 64; // the default, beside a connection for each worker
    private static final int TIMEOUT_MILLIS = 60_000;
    private static final long STOP_LIMIT_SECONDS = 8;

    private final Env env;
    private final RedissonClient client;
    private final RBlockingQueue<String> due;
    private final RDelayedQueue<String> delayed;
    private final Map<Long, String> payloads = new ConcurrentHashMap<>(); // a job is removed by what was offered
    private ExecutorService workers; // null until the work began
    private volatile boolean closing;

    RedissonQueue(Env env) {
        this.env = env;
        Config config = new Config();
        config.useSingleServer()
                .setAddress("redis://" + env.redis())
                .setConnectionPoolSize(POOL + env.workers())
                .setTimeout(TIMEOUT_MILLIS);
        client = Redisson.create(config);
        due = client.getBlockingQueue(NAME, StringCodec.INSTANCE);
        delayed = client.getDelayedQueue(due);
    }

    @Override
    public void schedule(List<Job> jobs) {
        for (int from = 0; from < jobs.size(); from += IN_FLIGHT) {
            List<Job> some = jobs.subList(from, Math.min(from + IN_FLIGHT, jobs.size()));
            CompletableFuture.allOf(some.stream().map(this::offer).toArray(CompletableFuture[]::new)).join();
        }
    }

    private CompletableFuture<Void> offer(Job job) {
        String payload = job.encode();
        payloads.put(job.id(), payload);
        return delayed.offerAsync(payload, delay(job), TimeUnit.MILLISECONDS).toCompletableFuture();
    }

    private static long delay(Job job) {
        return Math.max(0, job.dueMillis() - System.currentTimeMillis());
    }

    /** The payload keeps the due time from before the move. */
    @Override
    public void move(Job job) {
        String payload = payloads.get(job.id());
        if (!delayed.remove(payload)) {
            throw new IllegalStateException(payload + " is not pending");
        }
        delayed.offer(payload, delay(job), TimeUnit.MILLISECONDS);
    }

    @Override
    public void work(Handler handler) {
        workers = Executors.newFixedThreadPool(env.workers());
        for (int n = 0; n < env.workers(); n++) {
            workers.execute(() -> take(handler));
        }
    }

    /** Runs one job after the other. */
    private void take(Handler handler) {
        while (!closing) {
            try {
                String payload = due.take();
                run(handler, payload);
            } catch (InterruptedException e) {
                return;
            } catch (RedisException e) {
                e.printStackTrace(); // it is tried again
            }
        }
    }

    private static void run(Handler handler, String payload) {
        try {
            handler.run(Job.decode(payload));
        } catch (Exception e) {
            e.printStackTrace(); // nobody has the job any more
        }
    }

    @Override
    public void close() throws InterruptedException {
        closing = true;
        if (workers != null) {
            workers.shutdownNow(); // ends takes that wait
            workers.awaitTermination(STOP_LIMIT_SECONDS, TimeUnit.SECONDS);
        }
        delayed.destroy();
        client.shutdown();
    }
}
