package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/build"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
)

const consoleDrain = 3 * time.Second // for answers that are under way when the console is stopped

func (t *tool) console() *cobra.Command {
	var listen string
	var hash bool
	cmd := &cobra.Command{
		Use: "console [--listen ADDR]", Args: cobra.NoArgs,
		Short: "Serve the console as web pages: what is due, late, dead, and changes of it",
		Long: `Serve the console as web pages until a signal. The section console of the configuration says who may see and do what.
Without users, tokens and proxies everybody on this machine may do everything, and the pages are served on loopback only.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if hash {
				return t.hashPassword()
			}
			loaded, err := t.load()
			if err != nil {
				return err
			}
			addr := config.Loopback(cmp.Or(listen, t.page.Listen))
			log, err := loaded.Log.Handler(t.errs)
			if err != nil {
				return err
			}
			t.log = slog.New(log)
			cfg, err := t.pageConfig(addr)
			if err != nil {
				return err
			}
			return t.withParts(cmd.Context(), func(p *parts.Parts, c *console.Console) error {
				defer presence.Start(presence.Config{Role: "console", Configured: p.Config.Queues, Logger: t.log}, p.Store).Stop()
				return t.serveConsole(cmd.Context(), c, cfg, addr)
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "host:port of the pages, or a port of this machine; default is console.listen")
	cmd.Flags().BoolVar(&hash, "hash", false, "read a password from standard input, write its hash for console.users, and end")
	return cmd
}

func (t *tool) hashPassword() error {
	line, err := bufio.NewReader(t.in).ReadString('\n')
	if line = strings.TrimRight(line, "\r\n"); line == "" && err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	hash, err := consoleweb.HashPassword(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, hash)
	return err
}

// pageConfig reads who may see and do what.
func (t *tool) pageConfig(addr string) (consoleweb.Config, error) {
	out := consoleweb.Config{
		HidePayloads: t.page.HidesPayloads(), Logger: t.log,
	}
	users, err := t.page.UsersSecret()
	if err != nil {
		return out, err
	}
	if out.Users, err = consoleweb.ParseUsers(string(users)); err != nil {
		return out, fmt.Errorf("console.users: %w", err)
	}
	if users != "" && len(out.Users) == 0 {
		return out, errors.New("console.users: names nobody")
	}
	tokens, err := t.page.TokensSecret()
	if err != nil {
		return out, err
	}
	if out.Tokens, err = consoleweb.ParseTokens(string(tokens)); err != nil {
		return out, fmt.Errorf("console.tokens: %w", err)
	}
	if tokens != "" && len(out.Tokens) == 0 {
		return out, errors.New("console.tokens: names nobody")
	}
	if len(t.page.Proxies) > 0 {
		proxy, err := consoleweb.ParseProxy(t.page.Proxies, t.page.UserHeader, t.page.RoleHeader, t.page.Roles)
		if err != nil {
			return out, fmt.Errorf("console.proxies: %w", err)
		}
		out.Proxies = []consoleweb.Proxy{proxy}
	}
	if len(out.Users)+len(out.Tokens)+len(out.Proxies) > 0 {
		return out, nil
	}
	if !config.OnLoopback(addr) {
		return out, fmt.Errorf("console.listen: others reach %s: set console.users, console.tokens or console.proxies", addr)
	}
	out.Open = who()
	return out, nil
}

// withLivez answers an orchestrator's question, which comes without a sign-in and by the pod's address.
func withLivez(pages http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive\n") })
	mux.Handle("/", pages)
	return mux
}

func (t *tool) serveConsole(ctx context.Context, c *console.Console, cfg consoleweb.Config, addr string) error {
	handler, err := consoleweb.Handler(c, cfg)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("console.listen: %w", err)
	}
	cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "starting", build.Read().LogAttrs()...)
	server := process.NewServer(withLivez(handler))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	_, _ = fmt.Fprintf(t.errs, "the console is at http://%s/ until you interrupt it\n", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), consoleDrain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
