package protocol

import "time"

// MaxLead is how far ahead of its time a hint is sent at most.
const MaxLead = 2 * time.Second
