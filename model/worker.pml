/* The workers of one group. Each looks at one hint of the task at a time, as the hold has it for an owner. */

byte held[2], moment[2], acts[2]; /* a hint's score, when to look at it, the version that its transaction read */

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
		printf("worker %d: fetches the hint of version %d at %d\n", w, VERSION(s), TIME(s)) \
	}
#define FETCH_VERSION(v) FETCH(SCORE(0, v)) FETCH(SCORE(1, v)) FETCH(SCORE(2, v))

#define IN_TX (locked & BIT(w))
#define LOOKS (held[w] && moment[w] <= now && !IN_TX && !LOCKED)
#define LATER (state == PENDING && next > now)
#define SAME_VERSION (VERSION(held[w]) == version % M)
/* "Done" is written only over the pending version that was read. */
#if defined(NO_ROW_CHECK) || defined(NO_FINISH_CHECK)
#define AS_READ 1
#else
#define AS_READ (state == PENDING && version % M == acts[w])
#endif

inline unlock() { locked = locked & ~BIT(w); acts[w] = 0 }

inline forget() { held[w] = 0; moment[w] = 0; acts[w] = 0 }

/* The offset is committed. A hint that is delivered twice stays for its second time. */
inline settle() {
	if
	:: (twice & BIT(held[w])) -> twice = twice & ~BIT(held[w])
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
	effects++; state = DONE; version++; send(); unlock()
}

proctype worker(bit w) {
end: do
     FETCH_VERSION(0) FETCH_VERSION(1) FETCH_VERSION(2) FETCH_VERSION(3)
#if M > 4
     FETCH_VERSION(4) FETCH_VERSION(5) FETCH_VERSION(6) FETCH_VERSION(7)
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
     :: d_step { IN_TX && AS_READ -> effect(); settle() } /* commit */
     :: d_step { IN_TX && !AS_READ -> unlock(); printf("worker %d: conflict, looks again\n", w) }
#ifdef REPEAT_HINTS
     :: d_step { /* the commit's answer is lost: look again */
		IN_TX && AS_READ && faultsLeft -> faultsLeft--; effect();
		printf("worker %d: gets no answer\n", w)
	}
     :: d_step { /* killed before the offset's commit */
		IN_TX && AS_READ && faultsLeft -> faultsLeft--; effect(); forget();
		printf("worker %d: is killed before it commits the offset\n", w)
	}
#endif
#ifdef FAIL
     :: d_step {
		IN_TX && AS_READ && faultsLeft -> faultsLeft--;
		next = (now < T -> now + 1 : T); version++; send(); unlock(); settle();
		printf("worker %d: handler fails, next try at %d as version %d\n", w, next, version)
	}
     :: d_step { /* discard */
		IN_TX && AS_READ && faultsLeft -> faultsLeft--;
		state = DEAD; version++; send(); unlock(); settle();
		printf("worker %d: handler fails, dead as version %d\n", w, version)
	}
     :: d_step { /* charge, in a transaction of its own, and look again */
		IN_TX && AS_READ && faultsLeft -> faultsLeft--;
		version++; unlock();
		printf("worker %d: charges an attempt as version %d\n", w, version)
	}
#endif
     od
}
