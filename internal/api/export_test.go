package api

import "time"

// BeatEvery sets after which silence a stream gets a heartbeat.
func (a *API) BeatEvery(d time.Duration) { a.watches.beat = d }
