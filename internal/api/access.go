package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/loopback"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// roles has the role that each procedure needs. A procedure that is not here needs the highest.
var roles = map[string]Role{
	duetimev1connect.TaskServiceGetProcedure:                   RoleRead,
	duetimev1connect.TaskServiceListProcedure:                  RoleRead,
	duetimev1connect.TaskServiceWatchProcedure:                 RoleRead,
	duetimev1connect.RecurrenceServiceListRecurrencesProcedure: RoleRead,
	duetimev1connect.OwnerServiceListBlockedOwnersProcedure:    RoleRead,
	duetimev1connect.OwnerServiceAwaitDueProcedure:             RoleRead,

	duetimev1connect.PauseServiceListPausesProcedure: RoleRead,
	duetimev1connect.QueueServiceListQueuesProcedure: RoleRead,

	duetimev1connect.GroupServiceGetGroupProcedure:   RoleRead,
	duetimev1connect.GroupServiceListGroupsProcedure: RoleRead,

	reflectProcedure:      RoleRead,
	reflectAlphaProcedure: RoleRead,

	duetimev1connect.TaskServiceScheduleProcedure:               RoleSchedule,
	duetimev1connect.TaskServiceScheduleManyProcedure:           RoleSchedule,
	duetimev1connect.TaskServiceRescheduleProcedure:             RoleSchedule,
	duetimev1connect.TaskServiceShiftProcedure:                  RoleSchedule,
	duetimev1connect.TaskServiceCancelProcedure:                 RoleSchedule,
	duetimev1connect.GroupServiceMakeGroupProcedure:             RoleSchedule,
	duetimev1connect.GroupServiceAddToGroupProcedure:            RoleSchedule,
	duetimev1connect.GroupServiceSealGroupProcedure:             RoleSchedule,
	duetimev1connect.RecurrenceServiceRecurProcedure:            RoleSchedule,
	duetimev1connect.RecurrenceServicePauseRecurrenceProcedure:  RoleSchedule,
	duetimev1connect.RecurrenceServiceResumeRecurrenceProcedure: RoleSchedule,
	duetimev1connect.RecurrenceServiceStopRecurrenceProcedure:   RoleSchedule,

	duetimev1connect.TaskServiceRetryProcedure:                 RoleOperate,
	duetimev1connect.OperationServicePreviewOperationProcedure: RoleOperate,
	duetimev1connect.OperationServiceBeginOperationProcedure:   RoleOperate,
	duetimev1connect.OperationServiceGetOperationProcedure:     RoleOperate,
	duetimev1connect.OperationServiceListOperationsProcedure:   RoleOperate,
	duetimev1connect.OperationServiceCancelOperationProcedure:  RoleOperate,
	duetimev1connect.OwnerServiceBlockOwnerProcedure:           RoleOperate,
	duetimev1connect.OwnerServiceUnblockOwnerProcedure:         RoleOperate,
	duetimev1connect.PauseServicePauseProcedure:                RoleOperate,
	duetimev1connect.PauseServiceResumeProcedure:               RoleOperate,
	duetimev1connect.QueueServiceAddQueueProcedure:             RoleOperate,
	duetimev1connect.QueueServiceRetireQueueProcedure:          RoleOperate,
}

// access knows who may call. Without tokens everybody may.
type access struct {
	everybody caller                       // calls an API without tokens
	callers   map[[sha256.Size]byte]caller // by the hash of the token: the time of a look-up tells nothing about tokens
}

// caller is who calls.
type caller struct {
	name          string
	role          Role
	owners, kinds []string // nil: all
	places        places
}

func newAccess(tokens []Token) (*access, error) {
	a := &access{
		everybody: caller{name: "loopback", role: RoleOperate, places: newPlaces(callerOwnersLists, callerOwnersWaits)},
		callers:   make(map[[sha256.Size]byte]caller, len(tokens)),
	}
	names := map[string]bool{}
	for _, t := range tokens {
		if err := t.check(); err != nil {
			return nil, err
		}
		hash := sha256.Sum256([]byte(t.Token))
		other, taken := a.callers[hash]
		switch {
		case names[t.Name]:
			return nil, fmt.Errorf("%s is named twice", t.Name)
		case taken:
			return nil, fmt.Errorf("%s has the token of %s", t.Name, other.name)
		}
		names[t.Name] = true
		a.callers[hash] = caller{t.Name, t.Role, t.Owners, t.Kinds, newPlaces(callerOwnersLists, callerOwnersWaits)}
	}
	return a, nil
}

// admit finds out who calls, and refuses calls that the caller's role does not allow, before anything of the call is read.
func (a *access) admit(ctx context.Context, spec connect.Spec, _ connect.Peer, header http.Header) (context.Context, error) {
	who, err := a.identify(header)
	if err != nil {
		return nil, note(ctx, connect.NewError(connect.CodeUnauthenticated, err))
	}
	needed, known := roles[spec.Procedure]
	if !known {
		needed = RoleOperate
	}
	if who.role < needed {
		err := fmt.Errorf("the token of %s has the role %s, and this call needs %s", who.name, who.role, needed)
		return nil, note(ctx, reasoned(connect.CodePermissionDenied, err, reasonRole, nil))
	}
	return context.WithValue(ctx, callerKey{}, who), nil
}

var errNoToken = errors.New("the call needs a valid token: Authorization: Bearer TOKEN")

func (a *access) identify(header http.Header) (caller, error) {
	if len(a.callers) == 0 {
		return a.everybody, nil
	}
	token, found := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !found {
		return caller{}, errNoToken
	}
	who, known := a.callers[sha256.Sum256([]byte(token))]
	if !known {
		return caller{}, errNoToken
	}
	return who, nil
}

// guarded lets the origins in, and keeps all other web sites out of an API without tokens: they could call it by the browser of
// somebody on this machine, or by a name of their own that leads here.
func (a *access) guarded(h http.Handler, origins []string) (http.Handler, error) {
	if len(a.callers) > 0 {
		return shared(h, origins), nil
	}
	h, err := sameSite(h, origins)
	if err != nil {
		return nil, err
	}
	h = shared(h, origins)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback.Sent(r) {
			refuse(w, r, http.StatusForbidden, connect.NewError(connect.CodePermissionDenied, errElsewhere))
			return
		}
		h.ServeHTTP(w, r)
	}), nil
}

var errElsewhere = errors.New("an API without tokens answers this machine only, by a name of loopback")

type callerKey struct{}

// callerOf returns who calls; without an answer of admit it is somebody without any rights.
func callerOf(ctx context.Context) caller {
	who, _ := ctx.Value(callerKey{}).(caller)
	return who
}

// scoped has a transaction's changes of recurrences keep to the caller's kinds, and names the caller in the history.
func (c caller) scoped(tx *schedule.Tx) *schedule.Tx {
	schedule.Inside(inside.Key{}, tx).Scope(func(kind string) bool { return inScope(c.kinds, kind) })
	return tx.As(c.actor())
}

// actor is the caller in the history, as a service.
func (c caller) actor() string { return "api:" + c.name }

// operator is the caller in the history, as an operator, who has an @.
func (c caller) operator() string { return c.name + "@api" }

// errScope answers a request that names an owner or a kind outside of the token's scope, or none although the scope has some.
type errScope struct{ field, problem string }

func (e errScope) Error() string { return e.field + " " + e.problem }

// checkScope refuses owners and kinds outside of the scope; an empty one stands for all.
func (c caller) checkScope(owner, kind string) error {
	if !inScope(c.owners, owner) {
		return errScope{"owner", "must be one of the token's: " + strings.Join(c.owners, ", ")}
	}
	if !inScope(c.kinds, kind) {
		return errScope{"kind", "must be one of the token's: " + strings.Join(c.kinds, ", ")}
	}
	return nil
}

func (c caller) sees(owner, kind string) bool { return c.checkScope(owner, kind) == nil }

// isScoped reports whether there are tasks that the caller does not see.
func (c caller) isScoped() bool { return c.owners != nil || c.kinds != nil }

func inScope(scope []string, name string) bool {
	return scope == nil || slices.ContainsFunc(scope, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return isPrefix && strings.HasPrefix(name, prefix) || name == pattern
	})
}

// checkFilter refuses a filter that chooses tasks outside of the scope.
func (c caller) checkFilter(f task.Filter) error {
	owner := f.Owner
	if f.OwnerPrefix != "" && slices.ContainsFunc(c.owners, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return isPrefix && strings.HasPrefix(f.OwnerPrefix, prefix)
	}) {
		owner = f.OwnerPrefix
	}
	return c.checkScope(owner, f.Kind)
}

// checkNew refuses a task outside of the scope.
func (c caller) checkNew(t *v1.NewTask) error { return c.checkScope(t.GetOwner(), t.GetKind()) }
