package consoleweb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	slowAfter    = time.Second     // of a view: then the database is asked whether it answers at all
	probeTimeout = 2 * time.Second // of that
)

// errAway says that the database does not answer: without it, an outage would be called a slow search.
var errAway = errors.New("the database does not answer")

// read reads a view.
func (s *site) read(v *visit, at place) (data any, err error) {
	ctx, cancel := context.WithTimeout(v.r.Context(), viewTimeout)
	defer cancel()
	err = s.watch(ctx, func(ctx context.Context) error {
		data, err = at.read(ctx, v)
		return err
	})
	return data, s.blame(v.r.Context(), err)
}

// watch reads something. It ends early, with errAway, if the database does not answer meanwhile.
func (s *site) watch(ctx context.Context, read func(ctx context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	look := time.AfterFunc(slowAfter, func() {
		if s.away(ctx) {
			end(errAway)
		}
	})
	defer look.Stop()
	err := read(ctx)
	if errors.Is(context.Cause(ctx), errAway) {
		return errAway
	}
	return err
}

// blame tells what failed because the database does not answer from what failed otherwise, or took too long.
func (s *site) blame(ctx context.Context, err error) error {
	known := errors.Is(err, errAway) || errors.Is(err, context.Canceled)
	if err == nil || known || statusOf(err) < http.StatusInternalServerError {
		return err
	}
	if s.away(ctx) {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// away asks the database for almost nothing, and reports whether it does not answer. The context's end does not end it: what
// blame asks about has mostly used up its time.
func (s *site) away(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	_, _, err := s.c.Horizon(ctx)
	_, unreached := errors.AsType[net.Error](err) // an end of the time is one too
	return unreached || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
}
