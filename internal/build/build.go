// Package build says what the running program was built from. Metrics, logs and the tool read it here, so that they agree.
// It asks no server and reads no file.
package build

import (
	"cmp"
	"log/slog"
	"runtime/debug"

	"github.com/duetime/duetime/pkg/recur"
)

// unknown is what Go did not stamp into the program, as in tests.
const unknown = "unknown"

// Info is what a program was built from.
type Info struct {
	// Version is the release, such as v0.1.0; between releases Go's pseudo-version, with +dirty for changes that no commit has;
	// (devel) where Go knew neither a checkout nor a release.
	Version string `json:"version"`
	// Revision is the commit of the checkout. A program of go install has none: its version names the commit, or a tag.
	Revision string `json:"revision"`
	// Go is the version of the compiler.
	Go string `json:"go"`
	// TZ is the release of the tz database. Programs with different ones may compute different ticks.
	TZ string `json:"tz"`
}

// Read returns what the running program was built from.
func Read() Info {
	stamped, _ := debug.ReadBuildInfo()
	return of(stamped)
}

// of reads what Go has stamped into a program; nil is nothing.
func of(stamped *debug.BuildInfo) Info {
	info := Info{Version: unknown, Revision: unknown, Go: unknown, TZ: recur.TZVersion()}
	if stamped == nil {
		return info
	}
	info.Version = cmp.Or(stamped.Main.Version, unknown)
	info.Go = cmp.Or(stamped.GoVersion, unknown)
	for _, s := range stamped.Settings {
		if s.Key == "vcs.revision" {
			info.Revision = s.Value
		}
	}
	return info
}

// LogAttrs are the attributes of a process's first log line.
func (i Info) LogAttrs() []slog.Attr {
	return []slog.Attr{slog.String("version", i.Version), slog.String("revision", i.Revision), slog.String("tz", i.TZ)}
}
