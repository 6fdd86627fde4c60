/* The workers of one group. Each looks at one hint of the task at a time, as the hold has it for an owner. */

byte held[2], moment[2], acts[2]; /* a hint's score, when to look at it, the version that its transaction read */
byte suspects, charged;           /* the workers whose hint is a suspect; whose hint's attempt is charged */
byte acted;                       /* the workers whose handler has acted outside their transaction */
bit crashed;                      /* a handler has ended its process: hints that were due before are suspects */

/* The row counts the attempts that were charged beforehand. At one more the last attempt was begun once more. */
#ifndef ATTEMPTS
#define ATTEMPTS 1
#endif
#define EXHAUSTED (attempt > ATTEMPTS)

/* A hint waits for its moment; one that is far ahead is looked at once. Whoever puts early hints back looks at once. */
#ifdef PUT_BACK
#define MOMENT(s) now
#else
#define MOMENT(s) (TIME(s) - now > PATIENCE -> now : TIME(s))
#endif
#define FETCH(s) \
	:: d_step { \
		(hints & BIT(s)) && !held[w] && (w == 0 || held[0]) -> /* two idle workers are alike */ \
		held[w] = s; moment[w] = MOMENT(s); \
		suspects = suspects | (crashed && TIME(s) <= now -> BIT(w) : 0); \
		printf("worker %d: fetches the hint of version %d at %d\n", w, VERSION(s), TIME(s)) \
	}
#define FETCH_VERSION(v) FETCH(SCORE(0, v)) FETCH(SCORE(1, v)) FETCH(SCORE(2, v))

#define IN_TX (locked & BIT(w))
#define IS_FOUND (found & BIT(w))
#define UNCHARGED ((suspects & BIT(w)) && !(charged & BIT(w)))
#define READY (held[w] && moment[w] <= now && !IN_TX)
#ifdef FIND_UNLOCKED
#define LOOKS (READY && (!LOCKED || IS_FOUND))
#else
#define LOOKS (READY && !LOCKED)
#endif
/* What a look may find: a row that is due, or ahead of its moment. A locked row would be dropped: it is found once it is
 * free. */
#define FINDABLE (state == PENDING && !LOCKED && next <= now + AHEAD)
#define LATER (state == PENDING && next > now)
#define SAME_VERSION (VERSION(held[w]) == version % M)
/* "Done" is written only over the pending version that was read. */
#if defined(NO_ROW_CHECK) || defined(NO_FINISH_CHECK)
#define AS_READ 1
#else
#define AS_READ (state == PENDING && version % M == acts[w])
#endif

/* The handler may be called. */
#define RUNS (IN_TX && AS_READ && !UNCHARGED)

inline unlock() { locked = locked & ~BIT(w); acted = acted & ~BIT(w); acts[w] = 0 }

inline forget() {
	held[w] = 0; moment[w] = 0; acts[w] = 0;
	found = found & ~BIT(w); suspects = suspects & ~BIT(w); charged = charged & ~BIT(w)
}

/* The offset is committed. A hint that is delivered twice stays for its second time. A found row has no offset. */
inline settle() {
	if
	:: IS_FOUND
	:: !IS_FOUND && (twice & BIT(held[w])) -> twice = twice & ~BIT(held[w])
	:: else -> hints = hints & ~BIT(held[w])
	fi;
	forget()
}

/* Which promises are watched: each way in which a broken variant fails is looked for alone. */
#ifndef WATCH
#define WATCH 15
#endif

inline effect() {
	printf("worker %d: EFFECT at %d, due %d, state %d, effects before %d\n", w, now, due, state, effects);
	assert(effects == 0 || !(WATCH & 1));           /* duplicate */
	assert(!cancelled || !(WATCH & 2));             /* after cancel */
	assert(acts[w] == version % M || !(WATCH & 4)); /* stale: for another version than the one that stands */
	assert(now >= due || !(WATCH & 8));             /* early */
	effects++
}

inline finish() { state = DONE; version++; send(); unlock() }

proctype worker(bit w) {
end: do
     FETCH_VERSION(0) FETCH_VERSION(1) FETCH_VERSION(2) FETCH_VERSION(3)
#if M > 4
     FETCH_VERSION(4) FETCH_VERSION(5) FETCH_VERSION(6) FETCH_VERSION(7)
#endif
#ifdef FIND
     :: d_step { /* find */
		FINDABLE && !held[w] && (w == 0 || held[0]) ->
		held[w] = SCORE(next, version); moment[w] = next; found = found | BIT(w);
#ifndef FOUND_TRUSTED
		suspects = suspects | (next <= now -> BIT(w) : 0);
#endif
		printf("worker %d: finds the row in MySQL, version %d at %d\n", w, version, next)
	}
     :: d_step { /* join: the message is settled with the row that was found */
		IS_FOUND && (hints & BIT(held[w])) -> found = found & ~BIT(w);
		printf("worker %d: fetches the hint of what it has found\n", w)
	}
#ifndef FIND_UNLOCKED
     :: d_step { /* drop: whoever has locked it is at work on it */
		READY && LOCKED && IS_FOUND && !(charged & BIT(w)) -> forget();
		printf("worker %d: drops the row, it is locked\n", w)
	}
#endif
#endif
#ifdef NO_ROW_CHECK
     :: d_step { LOOKS && state != ABSENT -> locked = locked | BIT(w); acts[w] = VERSION(held[w]) }
#else
     :: d_step { LOOKS && state == ABSENT -> settle(); printf("worker %d: finds no row\n", w) }
     :: d_step { LOOKS && state > PENDING -> send(); settle(); printf("worker %d: finds it ended\n", w) }
     :: d_step { /* stale */
		LOOKS && LATER && !SAME_VERSION -> send(); settle();
		printf("worker %d: stale hint, puts the row\n", w)
	}
#ifdef PUT_BACK
     :: d_step {
		LOOKS && LATER && SAME_VERSION -> send(); settle();
		printf("worker %d: early, puts it back\n", w)
	}
#else
     :: d_step { /* far: left to the sweeps */
		LOOKS && LATER && SAME_VERSION && next - now > PATIENCE -> settle();
		printf("worker %d: far too early, lets it go\n", w)
	}
     :: d_step { /* early: held */
		LOOKS && LATER && SAME_VERSION && next - now <= PATIENCE -> moment[w] = next;
		printf("worker %d: early, holds it until %d\n", w, next)
	}
#endif
     :: d_step { /* due: locked from here on */
		LOOKS && state == PENDING && next <= now -> acts[w] = version % M;
		locked = locked | BIT(w);
		printf("worker %d: locks the row, version %d\n", w, version)
	}
#endif
#if defined(FIND) || defined(KILL)
     :: d_step { /* charge a suspect, in a transaction of its own, and look again */
		IN_TX && AS_READ && UNCHARGED && !EXHAUSTED -> attempt++;
		version++; unlock(); charged = charged | BIT(w);
		printf("worker %d: charges attempt %d as version %d\n", w, attempt, version)
	}
     :: d_step { /* exhausted */
		IN_TX && AS_READ && UNCHARGED && EXHAUSTED ->
		state = DEAD; version++; send(); unlock(); settle();
		printf("worker %d: no attempt is left, dead as version %d\n", w, version)
	}
#endif
#ifdef OUTSIDE /* the effect comes before the commit, and no rollback undoes it */
     :: d_step { IN_TX && !UNCHARGED && !(acted & BIT(w)) -> effect(); acted = acted | BIT(w) }
     :: d_step { IN_TX && AS_READ && (acted & BIT(w)) -> finish(); settle(); printf("worker %d: marks it done\n", w) }
#else
     :: d_step { RUNS -> effect(); finish(); settle() } /* commit */
#endif
     :: d_step { IN_TX && !AS_READ -> unlock(); printf("worker %d: conflict, looks again\n", w) }
#ifdef KILL
     :: d_step { /* the handler ends its process: all is rolled back */
		RUNS -> unlock(); forget();
#ifndef HINT_TRUSTED
		crashed = 1;
#endif
		printf("worker %d: the handler ends the process\n", w)
	}
#endif
#ifdef REPEAT_HINTS
     :: d_step { /* the commit's answer is lost: look again */
		RUNS && faultsLeft -> faultsLeft--; effect(); finish();
		printf("worker %d: gets no answer\n", w)
	}
     :: d_step { /* killed before the offset's commit */
		RUNS && faultsLeft -> faultsLeft--; effect(); finish(); forget();
		printf("worker %d: is killed before it commits the offset\n", w)
	}
#endif
#ifdef FAIL
     :: d_step {
		RUNS && faultsLeft && attempt < ATTEMPTS -> faultsLeft--;
		next = (now < T -> now + 1 : T); version++; send(); unlock(); settle();
		printf("worker %d: handler fails, next try at %d as version %d\n", w, next, version)
	}
     :: d_step { /* discard */
		RUNS && faultsLeft -> faultsLeft--;
		state = DEAD; version++; send(); unlock(); settle();
		printf("worker %d: handler fails, dead as version %d\n", w, version)
	}
     :: d_step { /* charge what is suspect although no process ended */
		RUNS && faultsLeft -> faultsLeft--;
		version++; unlock();
		printf("worker %d: charges an attempt as version %d\n", w, version)
	}
#endif
     od
}
