package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/config"
)

const healthTimeout = 3 * time.Second

func (t *tool) healthcheck() *cobra.Command {
	var admin string
	var ready bool
	cmd := &cobra.Command{
		Use: "healthcheck --admin ADDR [--ready]", Short: "Ask a process whether it lives, for containers: exit code 0 or 1", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/livez"
			if ready {
				path = "/readyz"
			}
			return health(cmd.Context(), "http://"+config.Loopback(admin)+path)
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "", "admin address of the process, host:port or a port of this machine")
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether it does its work, not only whether it lives")
	if err := cmd.MarkFlagRequired("admin"); err != nil {
		panic(err) // no flag has this name
	}
	return cmd
}

func health(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without the environment's proxy
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // the needed part was read
	text, _ := io.ReadAll(io.LimitReader(res.Body, 100))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d %s", url, res.StatusCode, text)
	}
	return nil
}
