package index

import (
	"fmt"
	"strconv"
	"strings"
)

// shardKey returns a key of one shard. The braces make the shard the hash tag, so that all keys of a shard share a slot.
func (x *Index) shardKey(shard int, name string) string {
	return x.namespace + ":{" + strconv.Itoa(shard) + "}:" + name
}

func (x *Index) dueKey(shard int) string     { return x.shardKey(shard, "due") }
func (x *Index) epochKey(shard int) string   { return x.shardKey(shard, "epoch") }
func (x *Index) genKey(shard int) string     { return x.shardKey(shard, "gen") }
func (x *Index) claimedKey(shard int) string { return x.shardKey(shard, "claimed") }
func (x *Index) wakeKey(shard int) string    { return x.shardKey(shard, "wake") }

// NamespaceKey returns the key that records the namespace's deployment. It belongs to no shard.
func (x *Index) NamespaceKey() string { return x.namespace + ":deployment" }

func (x *Index) ownerKey(shard int, owner string) string {
	return x.shardKey(shard, "owner:"+part(owner))
}

// ownerPattern matches the owner sets of one shard.
func (x *Index) ownerPattern(shard int) string { return escapePattern(x.ownerPrefix(shard)) + "*" }

// ownersPattern matches the owner sets of all shards.
func (x *Index) ownersPattern() string { return escapePattern(x.namespace) + ":{*}:owner:*" }

func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

func (x *Index) ownerPrefix(shard int) string { return x.shardKey(shard, "owner:") }

// checkNamespace refuses braces, which would change the hash tag.
func checkNamespace(namespace string) error {
	if namespace == "" || strings.ContainsAny(namespace, "{}") {
		return fmt.Errorf("namespace %q of the index: must not be empty or contain { or }", namespace)
	}
	return nil
}
