package diskwheel

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/bench/queue"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A day of a folder: jobs of this hour go to the wheel at once, those of the next when it is loaded, what ran does not
// come back, and files go when they are over.
func TestHoursComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fs := reopen(t, dir)
	wantIDs(t, "of an empty folder", load(t, fs, noon))
	wantIDs(t, "written for this hour", write(t, fs, noon, job(1, noon.Add(time.Minute)), job(2, noon.Add(90*time.Minute))), 1)
	wantIDs(t, "written overdue", write(t, fs, noon, job(3, noon.Add(-5*time.Hour))), 3)
	wantIDs(t, "of the next hour", load(t, fs, noon.Add(time.Hour)), 2)
	wantIDs(t, "of an hour already loaded", load(t, fs, noon.Add(time.Hour)))

	fs.ran(1)
	must(t, fs.close())
	fs = reopen(t, dir)
	wantIDs(t, "that did not run", load(t, fs, noon.Add(time.Hour)), 2, 3)

	fs.ran(2)
	must(t, fs.note(noon.Add(10*time.Hour)))
	fs.ran(3)
	must(t, fs.note(noon.Add(time.Hour)))
	wantFiles(t, dir, 2) // job 3's: an hour more
	must(t, fs.note(noon.Add(2*time.Hour)))
	wantFiles(t, dir, 0)
	must(t, fs.close())
}

// A write that was cut off leaves part of a record, which is nobody's job and in nobody's way.
func TestATornRecordIsWrittenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fs := reopen(t, dir)
	write(t, fs, noon, job(4, noon))
	for _, s := range fs.open {
		_, err := s.jobs.WriteAt([]byte("torn"), jobBytes)
		must(t, err)
	}
	must(t, fs.close())
	fs = reopen(t, dir)
	wantIDs(t, "before the torn one", load(t, fs, noon), 4)
	wantIDs(t, "behind the torn one", write(t, fs, noon, job(8, noon)), 8)
	must(t, fs.close())
	fs = reopen(t, dir)
	wantIDs(t, "of both", load(t, fs, noon), 4, 8)
	must(t, fs.close())
}

func job(id int64, due time.Time) queue.Job { return queue.Job{ID: id, Due: due.UnixMicro()} }

func reopen(t *testing.T, dir string) *files {
	t.Helper()
	fs, err := openFiles(dir)
	must(t, err)
	return fs
}

func load(t *testing.T, fs *files, now time.Time) []queue.Job {
	t.Helper()
	jobs, err := fs.load(hour(now.UnixMicro()))
	must(t, err)
	return jobs
}

func write(t *testing.T, fs *files, now time.Time, jobs ...queue.Job) []queue.Job {
	t.Helper()
	due, err := fs.write(jobs, now)
	must(t, err)
	return due
}

func wantIDs(t *testing.T, what string, jobs []queue.Job, want ...int64) {
	t.Helper()
	var got []int64
	for _, j := range jobs {
		got = append(got, j.ID)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs %s (-want +got):\n%s", what, diff)
	}
}

func wantFiles(t *testing.T, dir string, want int) {
	t.Helper()
	found, err := os.ReadDir(dir)
	must(t, err)
	if len(found) != want {
		t.Errorf("%d files, want %d: %v", len(found), want, found)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
