package com.duetime.bench;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import net.greghaines.jesque.Config;
import net.greghaines.jesque.ConfigBuilder;
import net.greghaines.jesque.client.Client;
import net.greghaines.jesque.client.ClientPoolImpl;
import net.greghaines.jesque.utils.PoolUtils;
import net.greghaines.jesque.worker.JobFactory;
import net.greghaines.jesque.worker.WorkerImpl;
import net.greghaines.jesque.worker.WorkerPool;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;

/**
 * Jesque's delayed jobs: a queue that is a sorted set in Redis, from which each worker pops one due job at a time. A
 * worker that has found none sleeps for half a second, which can't be set.
 *
 * <p>A delayed job is removed before its handler runs, so a killed worker's running jobs are lost: only jobs without a
 * delay stand in a list of their worker meanwhile. No call moves a pending job: enqueuing the same one again sets its time,
 * but makes it anew if it ran meanwhile.
 *
 * <p>Settings, everything else at its default: a pool of connections for the callers, and a worker for each handler.
 */
final class JesqueQueue implements Delayed {
    private static final String QUEUE = "bench";
    private static final String ACTION = "pet.meal";
    private static final int CONNECTIONS = 64; // and how many jobs of a bulk are enqueued side by side
    private static final long SOON_MILLIS = 1000;
    private static final long STOP_LIMIT_MILLIS = 8_000;

    private final Env env;
    private final Config config;
    private final Client client;
    private final ExecutorService callers = Executors.newFixedThreadPool(CONNECTIONS);
    private WorkerPool workers; // null until the work began

    JesqueQueue(Env env) {
        this.env = env;
        String[] address = env.redis().split(":");
        config = new ConfigBuilder().withHost(address[0]).withPort(Integer.parseInt(address[1])).build();
        GenericObjectPoolConfig<?> pool = PoolUtils.getDefaultPoolConfig();
        pool.setMaxTotal(CONNECTIONS);
        pool.setMaxIdle(CONNECTIONS);
        client = new ClientPoolImpl(config, PoolUtils.createJedisPool(config, pool));
    }

    /** There is no call for many delayed jobs. */
    @Override
    public void schedule(List<Job> jobs) throws Exception {
        for (Future<?> one : callers.invokeAll(jobs.stream().map(this::enqueue).toList())) {
            one.get();
        }
    }

    private Callable<Void> enqueue(Job job) {
        return () -> {
            long due = Math.max(job.dueMillis(), System.currentTimeMillis() + SOON_MILLIS); // the past is refused
            client.delayedEnqueue(QUEUE, new net.greghaines.jesque.Job(ACTION, job.encode()), due);
            return null;
        };
    }

    @Override
    public void work(Handler handler) {
        JobFactory factory = job -> (Callable<Void>) () -> {
            handler.run(Job.decode((String) job.getArgs()[0]));
            return null;
        };
        workers = new WorkerPool(() -> new WorkerImpl(config, List.of(QUEUE), factory), env.workers());
        new Thread(workers).start();
    }

    @Override
    public void close() throws Exception {
        if (workers != null) {
            workers.endAndJoin(false, STOP_LIMIT_MILLIS);
        }
        callers.shutdown();
        client.end();
    }
}
