package recur

import (
	"archive/zip"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// The tz database is the copy that comes with Go, and is copied from there.
//
// Package time would prefer the host's files, and would not say which version it has read: two hosts would compute
// different ticks. The copy of time/tzdata can't be read past them.
//
//go:generate sh -c "cp \"$(go env GOROOT)/lib/time/zoneinfo.zip\" . && sed -n s/^DATA=//p \"$(go env GOROOT)/lib/time/update.bash\" >zoneinfo.version"
var (
	//go:embed zoneinfo.zip
	zoneArchive string
	//go:embed zoneinfo.version
	zoneVersion string
)

// zones keeps the zones that were loaded. Equal timetables share one *time.Location, which makes them equal by ==.
var zones sync.Map

// TZVersion returns the release of the tz database by which ticks are computed, such as 2025c. The program brings it;
// nothing on the host changes it.
func TZVersion() string { return strings.TrimSpace(zoneVersion) }

var openArchive = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(strings.NewReader(zoneArchive), int64(len(zoneArchive)))
})

// loadZone refuses "Local" and "", which package time would read as the host's zone and as UTC.
func loadZone(name string) (*time.Location, error) {
	if zone, found := zones.Load(name); found {
		return zone.(*time.Location), nil //nolint:forcetypeassert // loadZone alone stores
	}
	archive, err := openArchive()
	if err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(archive, name)
	if err != nil {
		return nil, &FieldError{"zone", fmt.Sprintf("must be a name of the tz database, such as Europe/Berlin or UTC, and is %q", name[:min(len(name), maxText)])}
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, err
	}
	kept, _ := zones.LoadOrStore(name, zone)
	return kept.(*time.Location), nil //nolint:forcetypeassert // loadZone alone stores
}
