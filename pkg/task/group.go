package task

import (
	"errors"
	"time"
)

var (
	// ErrNoGroup says that no group has this name, or that it was forgotten: a group that has ended is kept until its retention ends
	// (daemon.retention).
	ErrNoGroup = errors.New("group not found")
	// ErrGroupSealed says that the group is sealed, or has ended: no member was added.
	ErrGroupSealed = errors.New("group is sealed")
)

// Group is a group of tasks, of which each is open, done, dead or cancelled. When its last member has ended, its follower is scheduled
// in the same transaction. The follower's payload has the group as its field "group", with its name and the three counts:
//
//	type Report struct {
//		Month string     `json:"month"`
//		Group task.Group `json:"group"`
//	}
type Group struct {
	Name      string `json:"name"`
	Done      int    `json:"done"`
	Dead      int    `json:"dead"`
	Cancelled int    `json:"cancelled"`

	// The following fields are not in a payload.

	Open          int       `json:"open,omitempty"` // members that are pending
	Sealed        bool      `json:"sealed,omitempty"`
	FollowerID    ID        `json:"follower_id,omitzero"` // the id that the follower has, or will have
	FollowerKind  string    `json:"follower_kind,omitempty"`
	FollowerOwner string    `json:"follower_owner,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	EndedAt       time.Time `json:"ended_at,omitzero"` // when its last member ended; zero until then
	Note          string    `json:"note,omitempty"`    // why the follower was not scheduled when the group ended; empty: it was
}

// Follower is the task that is scheduled when a group ends.
type Follower struct {
	Spec Spec
	Open bool // the group is not sealed: members may be added until Tx.SealGroup
}

// Then is the follower of a group that has all its members from the beginning.
func Then(spec Spec) Follower { return Follower{Spec: spec} }
