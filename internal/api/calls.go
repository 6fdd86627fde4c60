package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
)

// calls bounds each call's time, recovers from panics, and places errors into answers.
type calls struct{ failures *failures }

// WrapUnary wraps a call that has one answer.
func (c calls) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		procedure := req.Spec().Procedure
		limit := callTimeout
		switch procedure {
		case duetimev1connect.OperationServicePreviewOperationProcedure, duetimev1connect.OwnerServiceBlockOwnerProcedure,
			duetimev1connect.OwnerServiceAwaitDueProcedure, duetimev1connect.QueueServiceRetireQueueProcedure:
			limit = previewTimeout
		}
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err = recovered(func() (err error) {
			if err = refusal(req.Any()); err == nil {
				res, err = next(bounded, req)
			}
			return err
		})
		if err != nil {
			return nil, note(ctx, c.failures.answer(bounded, procedure, err))
		}
		return res, note(ctx, nil)
	}
}

// WrapStreamingHandler wraps a stream, which bounds its time itself.
func (c calls) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		err := recovered(func() error { return next(ctx, refusing{conn}) })
		if err != nil {
			return note(ctx, c.failures.answer(ctx, conn.Spec().Procedure, err))
		}
		return note(ctx, nil)
	}
}

// WrapStreamingClient is for clients, and does nothing.
func (calls) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

var errPanic = errors.New("panic")

// recovered calls fn; a panic is an error with its stack, for the log.
func recovered(fn func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, cause, debug.Stack())
		}
	}()
	return fn()
}
