/* Redis: what the scripts do, and the wire that carries writers' puts and drops to them. */

/* a is 1 to M/2-1 ahead of b, counted round the window. */
#define NEWER(a, b) (((a) - (b) + M) % M >= 1 && ((a) - (b) + M) % M <= M / 2 - 1)
#define NOTHING (inDue == 0 && inOwner == 0)
#define OWNER_NEWER (inOwner != 0 && NEWER(VERSION(inOwner), VERSION(inDue)))
#define LATEST (inDue == 0 || OWNER_NEWER -> VERSION(inOwner) : VERSION(inDue))
#ifdef NO_GUARD
#define PUT_TAKEN(s) 1
#else
#define PUT_TAKEN(s) (NOTHING || LATEST == VERSION(s) || NEWER(VERSION(s), LATEST))
#endif
#define DROP_TAKEN(v) (NOTHING || !NEWER(LATEST, v))

inline put(s) {
	if
	:: PUT_TAKEN(s) -> inDue = s; inOwner = s
	:: else -> printf("    refused: a newer version stands there\n")
	fi
}

inline drop(v) {
	if
	:: DROP_TAKEN(v) -> inDue = 0; inOwner = 0
	:: else -> printf("    refused: a newer version stands there\n")
	fi
}

/* A writer sends what the row says. What several send at once is one put: on the wire stands a set. */
inline send() {
	if
	:: state == PENDING -> puts = puts | BIT(SCORE(next, version))
	:: else -> drops = drops | BIT(version % M)
	fi
}

#define TEXT(words) #words
#define SAY_PUT(s, what) printf(TEXT(wire: put of version %d at %d what\n), VERSION(s), TIME(s))
#define SAY_DROP(v, what) printf(TEXT(wire: drop of version %d what\n), v)

/* Writers tell the daemon of a write that failed, unless they die first, or that message is lost too. */
#ifdef LOSE_WRITES
#define LOSE(set, n, say) \
	:: d_step { faultsLeft && (set & BIT(n)) -> faultsLeft--; set = set & ~BIT(n); say(n, is lost) } \
	TELL(set, n, say)
#else
#define LOSE(set, n, say)
#endif
#ifdef COMPENSATE
#define TELL(set, n, say) \
	:: d_step { \
		faultsLeft && (set & BIT(n)) -> faultsLeft--; \
		set = set & ~BIT(n); compensation = 1; say(n, is lost and the daemon told) \
	}
#else
#define TELL(set, n, say)
#endif
#ifdef REPEAT_WRITES
#define REPEAT(set, n, script, say) \
	:: d_step { \
		faultsLeft && (set & BIT(n)) -> faultsLeft--; say(n, arrives and is sent again); script(n) \
	}
#else
#define REPEAT(set, n, script, say)
#endif
#define CARRY(set, n, script, say) \
	:: d_step { (set & BIT(n)) -> set = set & ~BIT(n); say(n, arrives); script(n) } \
	LOSE(set, n, say) REPEAT(set, n, script, say)
#define CARRY_VERSION(v) \
	CARRY(puts, SCORE(0, v), put, SAY_PUT) CARRY(puts, SCORE(1, v), put, SAY_PUT) \
	CARRY(puts, SCORE(2, v), put, SAY_PUT) CARRY(drops, v, drop, SAY_DROP)

proctype wire() {
end: do
     CARRY_VERSION(0) CARRY_VERSION(1) CARRY_VERSION(2) CARRY_VERSION(3)
#if M > 4
     CARRY_VERSION(4) CARRY_VERSION(5) CARRY_VERSION(6) CARRY_VERSION(7)
#endif
     od
}
