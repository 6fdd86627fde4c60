/* The service: its transactions commit, answer, and put. */

bit scheduled;
byte changes = CHANGES;

#define SCHEDULE(at) \
	:: d_step { \
		!scheduled && now == 0 -> scheduled = 1; \
		state = PENDING; due = at; next = at; version = M - 2; send(); \
		printf("game: schedules for %d as version %d\n", at, version) \
	}
/* A change waits for the row's lock, and answers "already done" to all but pending rows. */
#define CHANGES_ROW (changes && state == PENDING && !LOCKED)
#define RESCHEDULE(at) \
	:: d_step { \
		CHANGES_ROW && at >= now -> changes--; \
		due = at; next = at; version++; send(); \
		printf("game: reschedules to %d as version %d\n", at, version) \
	}

proctype game() {
end: do
     SCHEDULE(0) SCHEDULE(1) SCHEDULE(2)
     RESCHEDULE(0) RESCHEDULE(1) RESCHEDULE(2)
     :: d_step {
		CHANGES_ROW -> changes--;
		state = CANCELLED; version++; cancelled = 1; send();
		printf("game: cancels as version %d\n", version)
	}
     od
}
