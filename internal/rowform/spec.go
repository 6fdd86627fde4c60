package rowform

// KeyMode says what scheduling does when the spec's key is taken.
type KeyMode int

// The key modes; Unkeyed has no key.
const (
	Unkeyed KeyMode = iota
	KeepPending
	MovePending
	OnceOnly
	ReplacePending
	OncePerWindow
)

// The first letters of stored order keys.
const (
	OrderByKey     = "k" // before the key that the spec gave
	OrderBySubject = "s" // before the owner, a separator and the subject
)

// OrderSeparator parts the owner from the subject in an order key; no owner of ours has it.
const OrderSeparator = "\x1f"

// The first letters of stored keys.
const (
	PendingKey = "k" // cleared when the task is done or cancelled
	OnceKey    = "o" // stays for the row's life
	WindowKey  = "w" // stays too; before the key, which window of which length
	DeadKey    = "d" // was a pendingKey; with the task's id between, so that it stands in nobody's way until a retry
)
