package build

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/pkg/recur"
)

func TestOf(t *testing.T) {
	t.Parallel()
	tz := recur.TZVersion()
	revision := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "4a34e3a"}, {Key: "vcs.modified", Value: "false"}}
	for name, c := range map[string]struct {
		stamped *debug.BuildInfo
		want    Info
	}{
		"nothing stamped": {nil, Info{"unknown", "unknown", "unknown", tz}},
		"no version":      {&debug.BuildInfo{GoVersion: "go1.26.0"}, Info{"unknown", "unknown", "go1.26.0", tz}},
		"go install": {
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.1.0"}}, Info{"v0.1.0", "unknown", "go1.26.0", tz},
		},
		"a tagged checkout": {
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.1.0"}, Settings: revision},
			Info{"v0.1.0", "4a34e3a", "go1.26.0", tz},
		},
	} {
		if d := cmp.Diff(c.want, of(c.stamped)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	if got := Read(); got.Go != runtime.Version() || got.TZ != recur.TZVersion() {
		t.Errorf("got %+v, want Go %s and the tz database %s", got, runtime.Version(), recur.TZVersion())
	}
}
