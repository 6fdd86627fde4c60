package api

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Limits of calls, beside those of package task.
const (
	maxMessage       = 1024 * 1024            // bytes of a request, decompressed
	maxHealthMessage = 1024                   // bytes: anybody may ask
	maxAnswer        = 2 * 1024 * 1024        // bytes of a page or of ScheduleMany's answer: many clients refuse more than 4 MiB
	minCompressed    = 8 * 1024               // bytes of an answer from which compressing it is worth its time
	callTimeout      = 10 * time.Second       // of a call, if its caller does not give it less
	previewTimeout   = 20 * time.Second       // of a preview, which reads an index entry of each task that matches, of a block, which cancels each of an owner's, of a retirement, which looks at each pending row, and of a wait
	minAwait         = 100 * time.Millisecond // that AwaitDue waits
	maxAwait         = 10 * time.Second       // that AwaitDue waits
	defaultAwait     = 2 * time.Second        // that AwaitDue waits
	watchLimit       = 10 * time.Minute       // of a stream
	watchInterval    = 500 * time.Millisecond // between two looks at what streams watch
	watchHeartbeat   = 20 * time.Second       // of a stream without changes: many proxies end one that is silent for a minute
	maxWatches       = 1000                   // streams at once
	maxCallerWatches = 250                    // streams of one caller
	defaultPage      = 100                    // tasks
	maxPage          = task.MaxPerCall        // tasks
	maxCursor        = 256                    // bytes
	maxPayloadValues = 200                    // of a payload that is no text
	maxPayloadDepth  = 20                     // of lists and objects in each other: three messages each, and readers take 100
	maxExactInteger  = 1<<53 - 1              // beyond it a double leaves out whole numbers
)
