package elect

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// sequenceLen is the number of digits that ZooKeeper appends.
const sequenceLen = 10

// node is one candidate's place in the queue for one name: a protected ephemeral sequential znode: _c_<guid>-n-<sequence>.
// The candidate keeps its guid, so that it finds and removes nodes of creates with an unknown outcome. (The client's own
// CreateProtectedEphemeralSequential draws a guid that its caller can't see, and may return an error after it made a node.)
// Its methods are called by one goroutine at a time, except connected.
type node struct {
	session *session
	log     *slog.Logger
	dir     string // root/name
	mark    string // _c_<guid>-

	path  string // "" while no create is known to have succeeded
	owner sessionID
	tried bool // a create was sent since the last removeOwnNodes
}

func newNode(s *session, root, name string, log *slog.Logger) *node {
	var guid [16]byte
	_, _ = rand.Read(guid[:]) // never fails
	return &node{session: s, log: log, dir: root + "/" + name, mark: "_c_" + hex.EncodeToString(guid[:]) + "-"}
}

// enter gives up any earlier place and takes the last one. It tries until it succeeds, is refused, or ctx is done.
func (n *node) enter(ctx context.Context) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if _, err := n.session.ready(ctx); err != nil {
			return err
		}
		err := n.queueUp(ctx)
		if err == nil {
			return nil
		}
		if err = refusal(err); ctx.Err() != nil || isRefusal(err) {
			return err
		}
		n.log.DebugContext(ctx, "place not taken yet", "err", err)
		pause(ctx, wait)
	}
}

// queueUp tries once to leave the old place and take the last one.
func (n *node) queueUp(ctx context.Context) error {
	if err := n.ensureDir(ctx); err != nil {
		return err
	}
	if err := n.removeOwnNodes(ctx); err != nil {
		return err
	}
	before, _, _ := n.session.now()
	n.tried = true
	path, err := call(ctx, n.session, "create candidate", func(conn *zk.Conn) (string, error) {
		return conn.Create(n.dir+"/"+n.mark+"n-", nil, zk.FlagEphemeral|zk.FlagSequence, n.session.acl())
	})
	if err != nil {
		return err
	}
	// The client may have sent the create under a newer session.
	if after, _, _ := n.session.now(); after != before {
		return errPlaceLost
	}
	n.path, n.owner = path, before
	return nil
}

func (n *node) ensureDir(ctx context.Context) error {
	for i := 1; i <= len(n.dir); i++ {
		if i < len(n.dir) && n.dir[i] != '/' {
			continue
		}
		_, err := call(ctx, n.session, "create "+n.dir[:i], func(conn *zk.Conn) (string, error) {
			return conn.Create(n.dir[:i], nil, 0, n.session.acl())
		})
		if errors.Is(err, zk.ErrNodeExists) {
			err = n.checkAccess(ctx, n.dir[:i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeOwnNodes removes every node with the candidate's guid, including those of earlier sessions. Requests of one
// client reach the server in order, so it also sees nodes of abandoned creates.
func (n *node) removeOwnNodes(ctx context.Context) error {
	queue, err := n.queue(ctx)
	if err != nil {
		return err
	}
	for _, child := range queue {
		if strings.HasPrefix(child, n.mark) {
			if err := n.remove(ctx, n.dir+"/"+child); err != nil {
				return err
			}
		}
	}
	n.path, n.tried = "", false
	return nil
}

func (n *node) remove(ctx context.Context, path string) error {
	_, err := call(ctx, n.session, "delete "+path, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(path, -1)
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// queue lists the candidates' nodes in order. It ignores other nodes.
func (n *node) queue(ctx context.Context) ([]string, error) {
	children, err := call(ctx, n.session, "list "+n.dir, func(conn *zk.Conn) ([]string, error) {
		children, _, err := conn.Children(n.dir)
		return children, err
	})
	if err != nil {
		return nil, err
	}
	children = slices.DeleteFunc(children, func(child string) bool {
		_, ok := sequence(child)
		return !ok
	})
	slices.SortFunc(children, func(a, b string) int {
		x, _ := sequence(a)
		y, _ := sequence(b)
		return cmp.Compare(x, y)
	})
	return children, nil
}

// sequence returns a candidate's number.
func sequence(child string) (int64, bool) {
	at := strings.LastIndex(child, "-n-")
	if !strings.HasPrefix(child, "_c_") || at < 0 || len(child) < at+3+sequenceLen {
		return 0, false
	}
	number, err := strconv.ParseInt(child[at+3:], 10, 64)
	return number, err == nil
}

// await returns nil when the place is first, errPlaceLost when it is lost, or ctx's error. It watches only the candidate
// ahead, so that a leader's end wakes one candidate and not all.
func (n *node) await(ctx context.Context) error {
	for {
		id, up, changed := n.session.now()
		if id != n.owner {
			return errPlaceLost
		}
		if !up {
			if err := wait(ctx, changed, nil); err != nil {
				return err
			}
			continue
		}
		ahead, err := n.ahead(ctx)
		if err == nil && ahead == "" {
			return nil
		}
		if err == nil {
			err = n.awaitDeletion(ctx, ahead, changed)
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("wait in %s: %w", n.dir, ctx.Err())
		case errors.Is(err, errPlaceLost):
			return err
		case err != nil:
			n.log.DebugContext(ctx, "waiting in the queue", "err", err)
			pause(ctx, 50*time.Millisecond)
		}
	}
}

// ahead returns the path of the node before this one, "" if this node is first, errPlaceLost if this node doesn't exist.
func (n *node) ahead(ctx context.Context) (string, error) {
	queue, err := n.queue(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return "", errPlaceLost
	}
	if err != nil {
		return "", err
	}
	switch i := slices.Index(queue, strings.TrimPrefix(n.path, n.dir+"/")); i {
	case -1:
		return "", errPlaceLost
	case 0:
		return "", nil
	default:
		return n.dir + "/" + queue[i-1], nil
	}
}

// awaitDeletion waits for a change of path or of the session. After a lost connection the client renews its watches.
func (n *node) awaitDeletion(ctx context.Context, path string, changed <-chan struct{}) error {
	events, err := n.watch(ctx, path)
	if err != nil || events == nil {
		return err
	}
	return wait(ctx, changed, events)
}

// watch returns a channel for the next event of path; nil if path doesn't exist.
func (n *node) watch(ctx context.Context, path string) (<-chan zk.Event, error) {
	return call(ctx, n.session, "watch "+path, func(conn *zk.Conn) (<-chan zk.Event, error) {
		// Unlike ExistsW, GetW leaves no watch on a node that doesn't exist.
		_, _, events, err := conn.GetW(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return events, err
	})
}

// first asks a server whether the place exists and is the first, after a sync with the ensemble's leader. It waits for a
// connection.
func (n *node) first(ctx context.Context) (bool, error) {
	for {
		if id, err := n.session.ready(ctx); err != nil {
			return false, err
		} else if id != n.owner {
			return false, nil
		}
		if ok, err := n.isFirst(ctx); err == nil || ctx.Err() != nil {
			return ok, err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func (n *node) isFirst(ctx context.Context) (bool, error) {
	_, err := call(ctx, n.session, "sync "+n.dir, func(conn *zk.Conn) (string, error) { return conn.Sync(n.dir) })
	if err != nil {
		return false, err
	}
	ahead, err := n.ahead(ctx)
	if errors.Is(err, errPlaceLost) {
		return false, nil
	}
	return err == nil && ahead == "", err
}

// awaitLoss returns when the place is known to be lost, or ctx is done. It watches the node itself: its session may end, and
// an operator may delete it.
func (n *node) awaitLoss(ctx context.Context) {
	for ctx.Err() == nil {
		id, up, changed := n.session.now()
		if id != n.owner {
			return
		}
		if !up {
			_ = wait(ctx, changed, nil)
			continue
		}
		events, err := n.watch(ctx, n.path)
		switch {
		case err != nil:
			pause(ctx, 50*time.Millisecond)
		case events == nil:
			return
		default:
			_ = wait(ctx, changed, events)
		}
	}
}

// connected reports whether a loss of the place would be noticed now.
func (n *node) connected() bool {
	id, up, _ := n.session.now()
	return up && id == n.owner
}

// leave deletes the node. If the delete fails, the session is given up: otherwise an unused place would block the queue
// while the session lives.
func (n *node) leave(ctx context.Context) error {
	if !n.tried {
		return nil
	}
	err := n.removeNode(ctx)
	if err != nil {
		n.session.replace("place not given up")
	}
	n.path, n.tried = "", false
	return err
}

func (n *node) removeNode(ctx context.Context) error {
	if _, err := n.session.ready(ctx); err != nil {
		return err
	}
	if n.path == "" {
		return n.removeOwnNodes(ctx)
	}
	return n.remove(ctx, n.path)
}

// wait returns when ctx is done, with an error, or at the first change or event.
func wait(ctx context.Context, changed <-chan struct{}, events <-chan zk.Event) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for zookeeper: %w", ctx.Err())
	case <-changed:
	case <-events:
	}
	return nil
}
