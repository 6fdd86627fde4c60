package elect

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/duetime/duetime/internal/trust"
)

// acl returns the access list of every node that we make: with a username, only this user has access.
func (s *session) acl() []zk.ACL {
	if s.cfg.Username == "" {
		return zk.WorldACL(zk.PermAll)
	}
	return zk.DigestACL(zk.PermAll, s.cfg.Username, s.cfg.Password)
}

// checkAccess refuses, if we have a username, an existing node that anybody may write: anybody who reaches the servers
// could depose every leader.
func (n *node) checkAccess(ctx context.Context, path string) error {
	if n.session.cfg.Username == "" {
		return nil
	}
	list, err := call(ctx, n.session, "read the access list of "+path, func(conn *zk.Conn) ([]zk.ACL, error) {
		list, _, err := conn.GetACL(path)
		return list, err
	})
	if err != nil {
		return err
	}
	for _, entry := range list {
		if entry.Scheme == "world" && entry.Perms&^zk.PermRead != 0 {
			return &trust.Refusal{Key: "zookeeper.username", Err: fmt.Errorf("anybody may write node %s: give it to this user alone, "+
				"or delete it with all below it while neither event nor daemon runs", path)}
		}
	}
	return nil
}

// refusal adds the configuration keys to an error about our username or password; other errors are unchanged.
func refusal(err error) error {
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) {
		return &trust.Refusal{Key: "zookeeper.username or zookeeper.password", Err: err}
	}
	return err
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*trust.Refusal](err)
	return ok
}
