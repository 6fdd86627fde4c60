// Command probe is a process with a server of its own, for the tests of package pipelinetest.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func main() { os.Exit(run()) }

func run() int {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	server, err := pipelinetest.StartRedis("")
	if err != nil {
		logger.Error("start", "err", err)
		return 1
	}
	fmt.Println(server.Addr())
	fmt.Println(filepath.Dir(filepath.Dir(server.Log())))
	fmt.Println(os.Getenv("DUETIME_PROBE"), os.Args[1:])
	logger.Info("ready")
	<-stop
	return 7
}
