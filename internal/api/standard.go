package api

import (
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
)

// Procedures of gRPC's reflection, which tools such as grpcurl call.
const (
	reflectProcedure      = "/" + grpcreflect.ReflectV1ServiceName + "/ServerReflectionInfo"
	reflectAlphaProcedure = "/" + grpcreflect.ReflectV1AlphaServiceName + "/ServerReflectionInfo"
)

// services are those that health checks and reflection name.
func services() []string {
	return []string{
		duetimev1connect.TaskServiceName, duetimev1connect.RecurrenceServiceName, duetimev1connect.OperationServiceName,
		duetimev1connect.OwnerServiceName, duetimev1connect.GroupServiceName, duetimev1connect.PauseServiceName,
		duetimev1connect.QueueServiceName,
	}
}

// asked is a health that can be asked, and not watched: callers without a token must not hold streams open.
type asked struct{ grpchealth.Checker }

// handleStandard adds the services that gRPC has for all servers. Health needs no token, as load balancers have none; reflection
// is a call as any other.
func handleStandard(mux *http.ServeMux, health *grpchealth.StaticChecker, options connect.HandlerOption) {
	mux.Handle(grpchealth.NewHandler(asked{health}, connect.WithReadMaxBytes(maxHealthMessage), unpacking(maxHealthMessage)))
	reflector := grpcreflect.NewStaticReflector(services()...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, options))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, options))
}

// notServing answers health checks from now on that balancers must send calls elsewhere.
func notServing(health *grpchealth.StaticChecker) {
	for _, service := range append(services(), "") {
		health.SetStatus(service, grpchealth.StatusNotServing)
	}
}
