package api

import (
	"google.golang.org/protobuf/proto"

	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// messages makes the messages of a page until they are as large as an answer may be. The first one is among them, however large
// it is: a list must go on.
func messages[T any, M proto.Message](page []T, message func(T) M) []M {
	made, size := make([]M, 0, len(page)), 0
	for _, row := range page {
		next := message(row)
		if size += proto.Size(next); size > maxAnswer && len(made) > 0 {
			break
		}
		made = append(made, next)
	}
	return made
}

// withoutPayloads takes the payloads out of results that would be too large with them. The call has changed something: an
// answer that its client refuses would hide that.
func withoutPayloads(results []*v1.ScheduleResponse) {
	if proto.Size(&v1.ScheduleManyResponse{Results: results}) <= maxAnswer {
		return
	}
	for _, r := range results {
		r.Task.Payload, r.Task.PayloadJson = nil, ""
	}
}
