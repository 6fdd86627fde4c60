package task

// Layout is what all processes of a schema agree on: its namespace, and where owners' tasks stand in the index. It is the one row
// of duetime_layout. All code that goes from an owner to a shard, or over all shards, asks a Layout: another rule about shards is
// then a change of this type alone.
type Layout struct {
	Namespace  string
	Deployment string // id of the schema, made by migrate: it tells two schemas of one namespace apart
	Shards     int    // over which new rows spread
	ShardsEver int    // the most shards that there have ever been: older rows stay where they are indexed
}

// Place returns the shard into which an owner's new tasks go.
func (l Layout) Place(owner string) int { return Shard(owner, l.Shards) }

// Standing returns the shards in which an owner's tasks may stand in the index. A list of the owner's tasks by the index is
// complete only if it has read all of them.
func (l Layout) Standing(owner string) []int { return []int{l.Place(owner)} }

// Polled returns how many shards are polled for due entries, and swept: those from 0 to Polled()-1.
func (l Layout) Polled() int { return l.ShardsEver }

// ShardOf returns the shard in which a row is indexed: its own, or its owner's place if no process polls the row's own, as when a
// service in another language wrote a wrong number.
func (l Layout) ShardOf(t Task) int {
	if t.Shard >= 0 && t.Shard < l.Polled() {
		return t.Shard
	}
	return l.Place(t.Owner)
}
