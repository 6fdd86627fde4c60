/* The daemon. With DAEMONS 2 two of its passes, or two daemons, mend side by side. */

/* Where the row must stand: a row whose hint may be under way may rightly be absent from the due set. */
#define RIGHT_OWNER (state == PENDING -> SCORE(next, version) : 0)
#ifdef NO_FLIGHT
#define UNDER_WAY(at) 0
#else
#define UNDER_WAY(at) ((at) <= now + LEAD)
#endif
#define FLYING UNDER_WAY(next)
#define RIGHT_DUE(seen, always) \
	(state != PENDING -> 0 : ((!(always) && FLYING && (seen) == 0) -> 0 : SCORE(next, version)))
#define UNLIKE (RIGHT_DUE(inDue, 0) != inDue || RIGHT_OWNER != inOwner)
#define OVERDUE (state == PENDING && next <= now && inDue == 0)

#ifdef GUARDED_PUT
/* A refused put changes nothing: such a pass is left out, or the daemon would never come to rest. */
#define EFFECTIVE (state == PENDING -> PUT_TAKEN(SCORE(next, version)) : DROP_TAKEN(version % M))
#else
#define EFFECTIVE 1
#endif

#define RESTING 0
#define GATE 1
#define LOOK 2
#define ROW 3
#define REPAIR 4
#define AGAIN 5
#define SCAN 6
#define SEE 7
#define FILL 8
#define RECENT 9
#define FINISH 10

/* A pass comes by later than a write takes. One that is overtaken by a pass is late: that is a fault, EAGER. */
#define CALM (step == RESTING && !puts && !drops)

/* How far a rebuild is. */
#define FILLING 1
#define COMPARING 2

/* What the two sets hold, at one moment. */
inline standings() { seenDue = inDue; seenOwner = inOwner; step = ROW }

/* A sweep reads the row, then the sets. What stands otherwise than the row says is mended, in the other order. */
inline sweep() {
	printf("daemon: sweeps, reads the row, version %d at %d, state %d\n", version, next, state);
#ifdef GUARDED_PUT
	standings()
#else
	read = version; rightOwner = RIGHT_OWNER; step = SEE
#endif
}

/* What a pass remembers ends with it, or with the mending that is one part of a rebuild. */
inline mended() {
	printf("daemon: is through: due set %d, owner's set %d\n", inDue, inOwner);
	seenDue = 0; seenOwner = 0; rightDue = 0; rightOwner = 0; read = 0; always = 0;
	if
	:: rebuilding == FILLING -> step = RECENT
	:: rebuilding == COMPARING -> step = FINISH
	:: else -> step = RESTING; told = 0
	fi
}

/* The marker says that nothing was lost since what stands was put. */
inline mark() {
	marker = COMPLETE;
	assert(!wiped); /* marked after a flush */
#ifndef LOSE_ENTRIES
	assert(state != PENDING || inDue == SCORE(next, version) || FLYING || puts) /* marked and not put */
#endif
}

proctype daemon(byte token) {
	byte step, seenDue, seenOwner, rightDue, rightOwner, read; /* read: the row's version when it was read */
	byte rebuilding;
	bit always, told;

end: do
#ifdef COMPENSATE
     :: d_step { /* compensate */
		step == RESTING && compensation -> compensation = 0; told = 1; always = 1; standings();
		printf("daemon: was told, reads the sets\n")
	}
#endif
#ifdef SWEEP
     :: d_step { CALM && UNLIKE && EFFECTIVE -> sweep() }
#ifndef NO_OVERDUE
     :: d_step { CALM && OVERDUE && EFFECTIVE && hints == 0 -> step = GATE; printf("daemon: overdue and absent\n") }
#endif
#endif
#ifdef EAGER
     :: d_step { /* a pass overtakes what is on the wire */
		step == RESTING && faultsLeft -> faultsLeft--; sweep()
	}
     :: d_step { /* an age from which no backlog explains anything, or one that can't be read */
		step == RESTING && faultsLeft -> faultsLeft--; always = 1; standings();
		printf("daemon: looks, and will put it\n")
	}
#endif
     :: d_step { /* unread hints explain the absence */
		step == GATE ->
		if
		:: hints == 0 -> always = 1; standings()
		:: else -> step = RESTING
		fi
	}
     :: d_step { step == LOOK -> standings(); printf("daemon: reads the sets again\n") }
     :: d_step { /* the row, after the sets */
		step == ROW -> read = version; rightDue = RIGHT_DUE(seenDue, always); rightOwner = RIGHT_OWNER;
		printf("daemon: reads the row, version %d at %d, state %d\n", version, next, state);
		if
		:: rightDue == seenDue && rightOwner == seenOwner -> mended()
		:: else -> step = REPAIR
		fi
	}
#ifdef GUARDED_PUT
     :: d_step {
		step == REPAIR -> printf("daemon: puts what the row said\n");
		if
		:: rightOwner != 0 -> put(rightOwner)
		:: else -> drop(read % M)
		fi;
		mended()
	}
#else
     :: d_step { /* repair: only what was seen */
		step == REPAIR ->
		if
		:: inDue == seenDue && inOwner == seenOwner -> inDue = rightDue; inOwner = rightOwner; step = AGAIN;
			printf("daemon: repairs: due set %d, owner's set %d\n", inDue, inOwner)
		:: else -> step = LOOK; read = 0; printf("daemon: the sets have moved\n")
		fi;
		seenDue = 0; seenOwner = 0; rightDue = 0; rightOwner = 0
	}
     :: d_step {
		step == AGAIN ->
		if
		:: version == read -> mended()
		:: else -> step = LOOK; read = 0; printf("daemon: the row has moved\n")
		fi
	}
#endif
#ifndef GUARDED_PUT
     :: d_step {
		step == SEE -> printf("daemon: reads the sets\n");
		if
		:: NOTHING && rightOwner != 0 && !UNDER_WAY(TIME(rightOwner)) -> step = FILL
		:: else -> rightOwner = 0; read = 0; step = LOOK
		fi
	}
     :: d_step { /* fill: only where nothing stands. A sweep reads the row again; a rebuild compares later what has changed. */
		step == FILL ->
		if
		:: NOTHING -> inDue = rightOwner; inOwner = rightOwner; step = AGAIN; printf("daemon: fills\n")
		:: !NOTHING && inDue == rightOwner && inOwner == rightOwner -> step = AGAIN
		:: else -> step = LOOK; read = 0; always = (rebuilding != 0); printf("daemon: something else stands there\n")
		fi;
		rightOwner = 0;
		if
		:: step == AGAIN && rebuilding -> mended()
		:: else
		fi
	}
#endif
#ifdef REBUILD
     :: d_step { /* begin */
		step == RESTING && marker != COMPLETE -> marker = token; wiped = 0; rebuilding = FILLING; step = SCAN;
		printf("daemon: begins a rebuild\n")
	}
     :: d_step {
		step == SCAN -> printf("daemon: scans the row, version %d at %d, state %d\n", version, next, state);
		if
		:: state == PENDING -> read = version; rightOwner = RIGHT_OWNER; step = FILL
		:: else -> mended()
		fi
	}
     :: d_step { /* recent: the rows that changed meanwhile, once more */
		step == RECENT -> rebuilding = COMPARING; printf("daemon: compares what changed meanwhile\n");
		if
		:: UNLIKE -> standings()
		:: else -> step = FINISH
		fi
	}
     :: d_step {
		step == FINISH -> step = RESTING; rebuilding = 0; printf("daemon: ends the rebuild\n");
		if
#ifdef MARK_UNCHECKED
		:: mark()
#else
		:: marker == token -> mark()
		:: else -> printf("    (not marked: begun again, or flushed)\n")
#endif
		fi
	}
#endif
#ifdef CRASH_DAEMON
     :: d_step { /* killed: what it was told is told again */
		step != RESTING && faultsLeft -> faultsLeft--;
		compensation = compensation | told; rebuilding = 0; told = 0; printf("daemon: is killed\n"); mended()
	}
#endif
     od
}
