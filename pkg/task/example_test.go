package task_test

import (
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Report is the payload of a kind that asks a slow server.
type Report struct {
	Month string `json:"month"`
}

// A kind is declared once. A spec says what to do, for whom and when; a client or a transaction schedules it.
func ExampleKind_New() {
	kind := task.NewKind[Report]("report.build", task.Queue("reports"), task.MaxAttempts(5))
	spec := kind.New("ada", Report{Month: "2026-11"}, task.In(time.Hour), task.Subject("sales"), task.Key("2026-11"))
	in, _ := spec.In()
	fmt.Println(spec.Kind().Name, spec.Owner(), spec.Subject(), spec.Key(), string(spec.Payload()), in)
	// Output: report.build ada sales 2026-11 {"month":"2026-11"} 1h0m0s
}

// A call of this kind's handler may take two seconds, whatever the worker allows others.
func ExampleTimeout() {
	kind := task.NewKind[Report]("report.build", task.Timeout(2*time.Second))
	fmt.Println(kind.Info().Timeout)
	// Output: 2s
}

// A payload of a version with more fields is refused, so that its attempt fails instead of leaving a field out.
func ExampleStrictPayload() {
	kind := task.NewKind[Report]("report.build", task.StrictPayload())
	_, err := kind.Payload(task.Task{Payload: []byte(`{"month":"2026-11"}`)})
	fmt.Println(err)
	_, err = kind.Payload(task.Task{Payload: []byte(`{"month":"2026-11","draft":true}`)})
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}
