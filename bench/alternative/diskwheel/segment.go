package diskwheel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/duetime/duetime/bench/queue"
)

const (
	jobBytes  = 16 // number and due time
	doneBytes = 8  // number
)

// segment is one file of jobs and, beside it, the one that says which of them ran.
type segment struct {
	mu     sync.Mutex
	jobs   *os.File
	done   *os.File
	size   int64 // of whole records in jobs: a torn one is written over
	noted  int64 // the same for done
	loaded bool  // all its jobs are on the wheel, or were
	left   int   // jobs not noted as run, of a loaded one
}

func openSegment(path string) (*segment, error) {
	jobs, size, err := openRecords(path, jobBytes)
	if err != nil {
		return nil, err
	}
	done, noted, err := openRecords(path+".done", doneBytes)
	if err != nil {
		return nil, err
	}
	return &segment{jobs: jobs, done: done, size: size, noted: noted}, nil
}

// openRecords tells how many bytes of whole records the file has.
func openRecords(path string, record int64) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a name that this package made
	if err != nil {
		return nil, 0, fmt.Errorf("open records: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("open records: %w", err)
	}
	return file, info.Size() / record * record, nil
}

// write makes the jobs durable and tells whether they belong on the wheel at once.
func (s *segment) write(jobs []queue.Job) (loaded bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]byte, 0, len(jobs)*jobBytes)
	for _, j := range jobs {
		records = binary.BigEndian.AppendUint64(records, uint64(j.ID))  //nolint:gosec // positive
		records = binary.BigEndian.AppendUint64(records, uint64(j.Due)) //nolint:gosec // positive
	}
	if err := appendRecords(s.jobs, &s.size, records); err != nil {
		return false, err
	}
	if s.loaded {
		s.left += len(jobs)
	}
	return s.loaded, nil
}

// load returns the jobs that did not run.
func (s *segment) load() ([]queue.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ran := map[int64]bool{}
	err := readRecords(s.done, s.noted, doneBytes, func(r []byte) { ran[number(r)] = true })
	var jobs []queue.Job
	err = errors.Join(err, readRecords(s.jobs, s.size, jobBytes, func(r []byte) {
		if j := (queue.Job{ID: number(r), Due: number(r[8:])}); !ran[j.ID] {
			jobs = append(jobs, j)
		}
	}))
	s.loaded, s.left = true, len(jobs)
	return jobs, err
}

// note makes durable which jobs ran and tells whether all did.
func (s *segment) note(ran []int64) (finished bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ran) > 0 {
		records := make([]byte, 0, len(ran)*doneBytes)
		for _, id := range ran {
			records = binary.BigEndian.AppendUint64(records, uint64(id)) //nolint:gosec // positive
		}
		if err := appendRecords(s.done, &s.noted, records); err != nil {
			return false, err
		}
		s.left -= len(ran)
	}
	return s.loaded && s.left == 0, nil
}

func (s *segment) close() error { return errors.Join(s.jobs.Close(), s.done.Close()) }

// remove takes the jobs away before the list of those that ran: the other way round, a kill in between would run all
// again.
func (s *segment) remove() error {
	return errors.Join(s.close(), os.Remove(s.jobs.Name()), os.Remove(s.done.Name()))
}

// appendRecords writes behind the last whole record and waits for the disk. After an error the size is as before.
func appendRecords(file *os.File, size *int64, records []byte) error {
	if _, err := file.WriteAt(records, *size); err != nil {
		return fmt.Errorf("append records: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("flush records: %w", err)
	}
	*size += int64(len(records))
	return nil
}

func readRecords(file *os.File, size int64, record int, each func([]byte)) error {
	records := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, size), records); err != nil {
		return fmt.Errorf("read records: %w", err)
	}
	for ; len(records) > 0; records = records[record:] {
		each(records)
	}
	return nil
}

func number(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) } //nolint:gosec // written from an int64
