/* What the world does to the protocol. Each costs one of the faults that are left. */

#define FAULT(guard) faultsLeft && (guard) -> faultsLeft--

#ifdef LOSE_HINTS
#define LOSE_HINT(s) \
	:: d_step { \
		FAULT(hints & BIT(s)); hints = hints & ~BIT(s); twice = twice & ~BIT(s); \
		printf("kafka: loses the hint of version %d at %d\n", VERSION(s), TIME(s)) \
	}
#else
#define LOSE_HINT(s)
#endif
#ifdef REPEAT_HINTS
#define REPEAT_HINT(s) \
	:: d_step { \
		FAULT((hints & BIT(s)) && !(twice & BIT(s))); twice = twice | BIT(s); \
		printf("kafka: will deliver the hint of version %d at %d twice\n", VERSION(s), TIME(s)) \
	}
#else
#define REPEAT_HINT(s)
#endif
#define MESSAGE(s) LOSE_HINT(s) REPEAT_HINT(s)
#define MESSAGES(v) MESSAGE(SCORE(0, v)) MESSAGE(SCORE(1, v)) MESSAGE(SCORE(2, v))

#ifdef PHANTOM
/* The put of a change that is rolled back: of the next version, or late, when another change has that version. */
#define PUT_OF_NOTHING(at, v) \
	:: d_step { \
		FAULT(scheduled); printf("wire: put of version %d at %d, which never committed, arrives\n", (v) % M, at); \
		put(SCORE(at, v)) \
	}
#endif

#ifdef FALL_BACK
/* A replica, or a backup, that lags. */
byte oldState, oldDue, oldNext, oldVersion, oldEffects, oldCounter, oldAttempt;
#define SAVED (oldState == state && oldDue == due && oldNext == next && oldVersion == version && oldCounter == counter)
#endif

proctype faults() {
end: do
     MESSAGES(0) MESSAGES(1) MESSAGES(2) MESSAGES(3)
#if M > 4
     MESSAGES(4) MESSAGES(5) MESSAGES(6) MESSAGES(7)
#endif
#ifdef PHANTOM
     PUT_OF_NOTHING(0, version + 1) PUT_OF_NOTHING(1, version + 1) PUT_OF_NOTHING(2, version + 1)
     PUT_OF_NOTHING(0, version) PUT_OF_NOTHING(1, version) PUT_OF_NOTHING(2, version)
#endif
#ifdef FLUSH
     :: d_step { FAULT(1); inDue = 0; inOwner = 0; fence = 0; marker = 0; wiped = 1; printf("redis: is flushed\n") }
#endif
#ifdef LOSE_ENTRIES
     :: d_step { FAULT(inDue); inDue = 0; printf("redis: loses the entry in the due set\n") }
     :: d_step { FAULT(inOwner); inOwner = 0; printf("redis: loses the entry in the owner's set\n") }
#endif
#ifdef CRASH
     :: d_step { FAULT(epoch[0]); epoch[0] = 0; rest(0); first = DISPATCHERS > 1; printf("event 0: is killed\n") }
     :: d_step { FAULT(epoch[1]); epoch[1] = 0; rest(1); first = 0; printf("event 1: is killed\n") }
#endif
#ifdef ELECT
     :: d_step { /* the other is frozen or cut off, and knows nothing */
		FAULT(1); first = !first; printf("zookeeper: the leader's session expires\n"); begin(first, 0)
	}
#endif
#ifdef FALL_BACK
     :: d_step { /* the replica catches up */
		faultsLeft && scheduled && !SAVED ->
		oldState = state; oldDue = due; oldNext = next; oldVersion = version; oldEffects = effects; oldCounter = counter;
		oldAttempt = attempt;
		printf("mysql: the replica has version %d\n", version)
	}
     :: d_step { /* open transactions are lost; what the restored row says is what was promised */
		FAULT(scheduled && !SAVED);
		state = oldState; due = oldDue; next = oldNext; version = oldVersion; effects = oldEffects; counter = oldCounter;
		attempt = oldAttempt;
		cancelled = (state == CANCELLED); locked = 0; acted = 0; acts[0] = 0; acts[1] = 0;
		printf("mysql: falls back to version %d, state %d, at %d\n", version, state, next)
	}
#endif
     :: false
     od
}
