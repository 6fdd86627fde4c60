package com.duetime.bench;

/** An Env of bench/queue, as far as the systems in Java need it. An address is empty where its server does not run. */
record Env(String system, String mysql, String redis, String rocketmq, int workers) {}
