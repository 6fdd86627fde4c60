/* The event processes. A leader that was replaced goes on until it is fenced. */

#define IDLE 0
#define CLAIMED 1
#define PUBLISHED 2
byte epoch[2], at[2], claim[2]; /* epoch 0: no term; at: its step; claim: the score claimed */
bit first;                      /* who stands first in ZooKeeper's queue */

#define CLAIMABLE (inDue != 0 && TIME(inDue) <= now + LEAD)
#ifdef NO_EPOCH
#define OUTRANKED(i) 0
#else
#define OUTRANKED(i) (epoch[i] < fence)
#endif
#define LEADS(i) (epoch[i] != 0 && !OUTRANKED(i))
/* An acknowledgement travels with the next claim; both are refused alike. */
#define CALLS(i) (at[i] == PUBLISHED || at[i] == IDLE && CLAIMABLE)

inline rest(i) { at[i] = IDLE; claim[i] = 0 }

/* An epoch above every one taken before, and above that of whoever fenced it. */
inline begin(i, above) {
	counter = (counter > (above) -> counter : (above)) + 1;
	epoch[i] = counter; rest(i);
	printf("event %d: leads under epoch %d\n", i, counter)
}

proctype dispatcher(bit i) {
end: do
     :: d_step { /* claim: removes nothing */
		at[i] == IDLE && CLAIMABLE && LEADS(i) ->
		fence = epoch[i]; claim[i] = inDue; at[i] = CLAIMED;
#ifdef REMOVE_FIRST
		inDue = 0;
#endif
		printf("event %d: claims version %d at %d\n", i, VERSION(claim[i]), TIME(claim[i]))
	}
     :: d_step { /* publish */
		at[i] == CLAIMED -> hints = hints | BIT(claim[i]); at[i] = PUBLISHED;
		printf("event %d: publishes the hint\n", i)
	}
     :: d_step { /* ack: only where the score is still the one claimed */
		at[i] == PUBLISHED && LEADS(i) -> fence = epoch[i];
		if
#ifdef ACK_UNCHECKED
		:: inDue = 0
#else
		:: inDue == claim[i] -> inDue = 0
		:: else -> printf("    (the entry has moved)\n")
#endif
		fi;
		rest(i);
		printf("event %d: acknowledges: due set holds %d\n", i, inDue)
	}
     :: d_step { /* fenced: whoever stands first takes an epoch above the stored one */
		epoch[i] != 0 && OUTRANKED(i) && CALLS(i) ->
		printf("event %d: is fenced\n", i);
		if
		:: first == i -> begin(i, fence)
		:: else -> epoch[i] = 0; rest(i)
		fi
	}
     :: d_step { first == i && epoch[i] == 0 -> begin(i, 0) } /* elect, where nobody leads */
     od
}
