package com.duetime.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;

/**
 * Runs one of the systems in Java in a process of its own, by the protocol of bench/protocol: one request a line on
 * standard input, one answer a line on standard output. The environment variable BENCH is an Env of bench/queue in JSON.
 */
public final class Driver {
    private final Env env;
    private final Delayed queue;
    private Effects effects; // null until the work began

    private Driver(Env env) throws Exception {
        this.env = env;
        this.queue = open(env);
    }

    private static Delayed open(Env env) throws Exception {
        return switch (env.system()) {
            case "rocketmq-levels" -> new RocketLevels(env);
            case "rocketmq-timers" -> new RocketTimers(env);
            case "redisson" -> new RedissonQueue(env);
            case "jesque" -> new JesqueQueue(env);
            default -> throw new IllegalArgumentException("unknown system " + env.system());
        };
    }

    /** Ends the process, whatever threads libraries have left behind. */
    public static void main(String[] args) {
        PrintStream answers = System.out;
        System.setOut(System.err); // what a library prints is no answer
        try {
            serve(answers);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    /** Answers requests until it is told to stop or nobody asks any more. */
    private static void serve(PrintStream answers) throws Exception {
        Driver driver = new Driver(Json.MAPPER.readValue(System.getenv("BENCH"), Env.class));
        print(answers, Map.of());
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request request = Json.MAPPER.readValue(line, Request.class);
            print(answers, driver.answer(request));
            if (request.op().equals("stop")) {
                break;
            }
        }
    }

    private static void print(PrintStream answers, Map<String, Object> answer) throws IOException {
        answers.println(Json.MAPPER.writeValueAsString(answer));
        answers.flush();
    }

    private Map<String, Object> answer(Request request) {
        try {
            return carryOut(request);
        } catch (Exception e) {
            e.printStackTrace();
            return Map.of("error", e.toString());
        }
    }

    private Map<String, Object> carryOut(Request request) throws Exception {
        return switch (request.op()) {
            case "schedule" -> timed(() -> schedule(request));
            case "move" -> timed(() -> move(request));
            case "work" -> work(request.effect());
            case "seen" -> effects.seen();
            case "marks" -> effects.marks();
            case "stop" -> stop();
            default -> throw new UnsupportedOperationException("this system can't " + request.op());
        };
    }

    private static Map<String, Object> timed(Callable<Long> make) throws Exception {
        long began = System.nanoTime();
        long jobs = make.call();
        return Map.of("jobs", jobs, "micros", (System.nanoTime() - began) / 1000);
    }

    private long schedule(Request request) throws Exception {
        queue.schedule(request.jobs());
        return request.count();
    }

    /** Moves jobs one by one for so long from so many callers, and counts them. */
    private long move(Request request) throws Exception {
        AtomicLong next = new AtomicLong();
        long until = System.nanoTime() + (long) (request.seconds() * 1e9);
        Callable<Long> caller = () -> {
            long moved = 0;
            for (; System.nanoTime() < until; moved++) {
                queue.move(request.moved(next.getAndIncrement()));
            }
            return moved;
        };
        ExecutorService callers = Executors.newFixedThreadPool(request.callers());
        try {
            long moved = 0;
            List<Callable<Long>> all = IntStream.range(0, request.callers()).mapToObj(n -> caller).toList();
            for (Future<Long> one : callers.invokeAll(all)) {
                moved += one.get();
            }
            return moved;
        } finally {
            callers.shutdown();
        }
    }

    private Map<String, Object> work(boolean effect) throws Exception {
        effects = new Effects(effect ? Effects.open(env.mysql(), env.workers()) : null);
        queue.work(effects);
        return Map.of();
    }

    private Map<String, Object> stop() throws Exception {
        queue.close();
        if (effects != null) {
            effects.close();
        }
        return Map.of();
    }
}
