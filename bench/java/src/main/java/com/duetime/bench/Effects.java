package com.duetime.bench;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Instant;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What handlers do, and the record of it: bench/queue/effects.go in Java. */
final class Effects implements Delayed.Handler {
    private static final Pattern DSN = Pattern.compile("(?:([^:@]*)(?::([^@]*))?@)?tcp\\((.+):(\\d+)\\)/([^?]*).*");

    private final HikariDataSource pool; // null: handlers do nothing
    private final AtomicLong started = new AtomicLong();
    private final AtomicLong done = new AtomicLong();
    private final AtomicLong last = new AtomicLong();
    private final Collection<Mark> marks = new ConcurrentLinkedQueue<>();

    /** When a handler began and when its effect had committed, in µs after the due time. */
    private record Mark(
            @JsonProperty("ID") long id, @JsonProperty("Start") long start, @JsonProperty("Done") long done) {}

    Effects(HikariDataSource pool) {
        this.pool = pool;
    }

    /** Opens as many connections as there are handlers, at the address that a DSN of go-sql-driver/mysql names. */
    static HikariDataSource open(String dsn, int connections) {
        Matcher parts = DSN.matcher(dsn);
        if (!parts.matches()) {
            throw new IllegalArgumentException("unknown form of DSN: " + dsn);
        }
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:mariadb://" + parts.group(3) + ":" + parts.group(4) + "/" + parts.group(5));
        config.setUsername(parts.group(1));
        config.setPassword(parts.group(2));
        config.setMaximumPoolSize(connections);
        config.setAutoCommit(false); // or each transaction costs two round trips more
        return new HikariDataSource(config);
    }

    @Override
    public void run(Job job) throws SQLException {
        long start = nowMicros();
        started.incrementAndGet();
        if (pool != null) {
            feed(job.id());
        }
        long end = nowMicros();
        marks.add(new Mark(job.id(), start - job.due(), end - job.due()));
        last.accumulateAndGet(end, Math::max);
        done.incrementAndGet();
    }

    /** Marks the job's row done and feeds its pet, in one transaction. Closing a connection rolls back what failed. */
    private void feed(long id) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            update(connection, "UPDATE bench_tasks SET state = 1 WHERE id = ?", id);
            update(connection, "UPDATE bench_pets SET meals = meals + 1 WHERE id = ?", id);
            connection.commit();
        }
    }

    private static void update(Connection connection, String statement, long id) throws SQLException {
        try (PreparedStatement update = connection.prepareStatement(statement)) {
            update.setLong(1, id);
            update.executeUpdate();
        }
    }

    private static long nowMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    Map<String, Object> seen() {
        return Map.of("done", done.get(), "started", started.get(), "last", last.get());
    }

    Map<String, Object> marks() {
        return Map.of("marks", marks);
    }

    void close() {
        if (pool != null) {
            pool.close();
        }
    }
}
