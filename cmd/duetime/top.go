package main

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

const (
	topInterval   = 2 * time.Second // between two frames, at least
	topIdleFactor = 5               // the next frame waits for this multiple of the last read's time: a large table is not read all day
	topWidth      = 80              // without a terminal
	topHeight     = 24
)

func (t *tool) top() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use: "top", Short: "Watch the pipeline: rates, lag, leaders, backlog", Args: cobra.NoArgs,
		Long: `Watch the pipeline: rates, lag, leaders, backlog, as MySQL and Redis tell. It asks no process of the pipeline. Keys: q ends.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(c *console.Console) error {
				if once {
					return t.topOnce(cmd.Context(), c)
				}
				return t.topLive(cmd.Context(), c)
			})
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "write one frame and end")
	return cmd
}

// picture is a frame, and what is kept of earlier frames.
type picture struct {
	console.Frame

	interval time.Duration // until the next frame; 0 if there is none
	err      error         // of the last read, after which old figures are shown
	zone     *time.Location
	fired    []int64 // of this and earlier frames
}

func (t *tool) topOnce(ctx context.Context, c *console.Console) error {
	f, err := c.Frame(ctx)
	if err != nil {
		return err
	}
	width, terminal := t.width()
	if !terminal {
		width = topWidth
	}
	if err := writeLines(t.out, picture{Frame: f, zone: t.location()}.draw(width, topHeight, plain)); err != nil {
		return err
	}
	return f.IndexErr // the exit code must tell
}

func (t *tool) topLive(ctx context.Context, c *console.Console) error {
	if !isTerminal(t.out) || !isTerminal(t.in) {
		return errors.New("top needs a terminal; --once writes one frame anywhere")
	}
	// The first frame is read before the screen opens: if a server is away, the exit code must tell.
	f, err := c.Frame(ctx)
	if err != nil {
		return err
	}
	m := screen{ctx: ctx, console: c, width: topWidth, height: topHeight, picture: picture{zone: t.location()}}
	m.picture = m.picture.followedBy(f)
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(),
		tea.WithInput(t.in), tea.WithOutput(t.out)).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil //nolint:nilerr // stopped by a signal
	}
	return err
}

// screen is the live view, a bubbletea model.
type screen struct {
	ctx           context.Context //nolint:containedctx // Of the program: bubbletea gives its commands none.
	console       *console.Console
	picture       picture
	width, height int
}

type (
	frameDue  struct{} // time to read the next frame
	frameRead struct {
		frame console.Frame
		err   error
		took  time.Duration // so long, if it failed
	}
)

// maxSamples is the number of frames in the small chart.
const maxSamples = 30

// followedBy returns the picture of the next frame.
func (p picture) followedBy(f console.Frame) picture {
	fired := append(slices.Clone(p.fired), f.Fired)
	return picture{
		Frame: f, zone: p.zone, interval: idleAfter(millis(f.TookMs)), fired: fired[max(0, len(fired)-maxSamples):],
	}
}

// idleAfter is how long to wait after a read that took so long.
func idleAfter(took time.Duration) time.Duration {
	return max(topInterval, topIdleFactor*took).Round(time.Second)
}

// Init waits for the second frame.
func (s screen) Init() tea.Cmd { return s.wait() }

func (s screen) wait() tea.Cmd {
	return tea.Tick(s.picture.interval, func(time.Time) tea.Msg { return frameDue{} })
}

// Update handles one event.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case frameDue:
		return s, func() tea.Msg {
			began := time.Now()
			f, err := s.console.Frame(s.ctx)
			return frameRead{f, err, time.Since(began)}
		}
	case frameRead:
		if msg.err != nil {
			s.picture.err, s.picture.interval = msg.err, idleAfter(msg.took) // the last good figures stay on the screen
		} else {
			s.picture = s.picture.followedBy(msg.frame)
		}
		return s, s.wait()
	}
	return s, nil
}

// View draws the picture.
func (s screen) View() tea.View {
	v := tea.NewView(s.picture.draw(s.width, s.height, coloured))
	v.AltScreen = true
	return v
}
