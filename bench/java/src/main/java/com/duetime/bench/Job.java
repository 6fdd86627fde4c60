package com.duetime.bench;

import com.fasterxml.jackson.core.JsonProcessingException;

/**
 * One task: the same in every system. Its number travels in the payload, with its due time in Unix µs, so that each
 * handler can tell how late it began.
 */
record Job(long id, long due) {
    /** The due time in whole ms, rounded up so that no job is early. */
    long dueMillis() {
        return Math.floorDiv(due + 999, 1000L);
    }

    String encode() {
        try {
            return Json.MAPPER.writeValueAsString(this);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("encode " + this, e);
        }
    }

    static Job decode(String payload) {
        try {
            return Json.MAPPER.readValue(payload, Job.class);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException("decode " + payload, e);
        }
    }
}
