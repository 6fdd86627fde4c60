package diskwheel

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/duetime/duetime/bench/queue"
)

const shards = 4

// hour is the number of the hour since 1970.
func hour(micros int64) int64 { return micros / time.Hour.Microseconds() }

// place says which file a job is in.
type place struct{ hour, shard int64 }

func (p place) name() string { return fmt.Sprintf("%d-%d.jobs", p.hour, p.shard) }

// files are all hours' files.
type files struct {
	dir string

	mu      sync.Mutex
	through int64 // the last hour that is loaded
	open    map[place]*segment
	holders map[int64]*segment   // of the jobs that are loaded and did not run
	runs    map[*segment][]int64 // what ran since the last note
}

// openFiles finds what an earlier process left and loads nothing.
func openFiles(dir string) (*files, error) {
	fs := &files{
		dir: dir, through: -1,
		open: map[place]*segment{}, holders: map[int64]*segment{}, runs: map[*segment][]int64{},
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.jobs"))
	if err != nil {
		return nil, fmt.Errorf("list the folder: %w", err)
	}
	for _, name := range names {
		var p place
		if _, err := fmt.Sscanf(filepath.Base(name), "%d-%d.jobs", &p.hour, &p.shard); err != nil {
			return nil, fmt.Errorf("name of %s: %w", name, err)
		}
		if _, err := fs.segment(p); err != nil {
			return nil, err
		}
	}
	return fs, nil
}

// segment finds or makes a file. A new one of a loaded hour is empty, and thereby loaded.
func (fs *files) segment(p place) (*segment, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if s, ok := fs.open[p]; ok {
		return s, nil
	}
	s, err := openSegment(filepath.Join(fs.dir, p.name()))
	if err != nil {
		return nil, err
	}
	if err := syncFolder(fs.dir); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.loaded = p.hour <= fs.through
	fs.open[p] = s
	return s, nil
}

// write appends the jobs to their files and gives those that belong on the wheel. An overdue job goes to the hour that
// runs: older files may be on their way out.
func (fs *files) write(jobs []queue.Job, now time.Time) ([]queue.Job, error) {
	parts := map[place][]queue.Job{}
	for _, j := range jobs {
		p := place{max(hour(j.Due), hour(now.UnixMicro())), j.ID % shards}
		parts[p] = append(parts[p], j)
	}
	var due []queue.Job
	for p, js := range parts {
		s, err := fs.segment(p)
		if err != nil {
			return due, err
		}
		loaded, err := s.write(js)
		if err != nil {
			return due, err
		}
		if loaded {
			fs.hold(s, js)
			due = append(due, js...)
		}
	}
	return due, nil
}

// load returns the jobs of all hours up to through that are not loaded yet.
func (fs *files) load(through int64) ([]queue.Job, error) {
	var jobs []queue.Job
	for _, s := range fs.begin(through) {
		js, err := s.load()
		if err != nil {
			return nil, err
		}
		fs.hold(s, js)
		jobs = append(jobs, js...)
	}
	return jobs, nil
}

// begin makes new files of these hours loaded from the start, and gives the others.
func (fs *files) begin(through int64) []*segment {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var found []*segment
	for p, s := range fs.open {
		if p.hour > fs.through && p.hour <= through {
			found = append(found, s)
		}
	}
	fs.through = max(fs.through, through)
	return found
}

func (fs *files) hold(s *segment, jobs []queue.Job) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, j := range jobs {
		fs.holders[j.ID] = s
	}
}

// ran remembers that a job ran, until the next note.
func (fs *files) ran(id int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	s := fs.holders[id]
	delete(fs.holders, id)
	fs.runs[s] = append(fs.runs[s], id)
}

// note writes down what ran, and removes the files that are no longer needed: after a whole hour more, so that none is
// being written to. Nobody waits for it.
func (fs *files) note(now time.Time) error {
	open, runs := fs.noteworthy()
	for p, s := range open {
		finished, err := s.note(runs[s])
		if err != nil {
			return err
		}
		if finished && p.hour < hour(now.UnixMicro())-1 {
			if err := fs.remove(p, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (fs *files) noteworthy() (map[place]*segment, map[*segment][]int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	runs := fs.runs
	fs.runs = map[*segment][]int64{}
	return maps.Clone(fs.open), runs
}

func (fs *files) remove(p place, s *segment) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.open, p)
	return s.remove()
}

func (fs *files) close() error {
	errs := []error{fs.note(time.Now())}
	for _, s := range fs.open {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// syncFolder makes the names of new files durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the queue's own folder
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
