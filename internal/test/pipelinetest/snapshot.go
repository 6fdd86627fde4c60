package pipelinetest

import (
	"errors"
	"fmt"
	"os"
)

// Snapshot copies the server's data as a crash at one moment would leave them, and returns the copy's folder, for
// Restore. A running server is frozen meanwhile. The copy goes with the server.
func (s *Server) Snapshot() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent {
		return "", errLent
	}
	if s.running() {
		if err := s.proc.freeze(); err != nil {
			return "", err
		}
	}
	dir, err := s.copyData()
	if s.running() {
		err = errors.Join(err, s.proc.thaw())
	}
	return dir, err
}

func (s *Server) copyData() (string, error) {
	dir, err := os.MkdirTemp(s.dir, "snapshot-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a snapshot of %s: %w", s.recipe.name, err)
	}
	if err := os.CopyFS(dir, os.DirFS(s.data())); err != nil {
		return "", fmt.Errorf("copy the data of %s: %w", s.recipe.name, err)
	}
	return dir, nil
}

// Restore kills the server, puts the data of a snapshot back and starts it on the same port. The snapshot may be
// restored again.
func (s *Server) Restore(snapshot string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	if err := empty(s.data()); err != nil {
		return fmt.Errorf("remove the data of %s: %w", s.recipe.name, err)
	}
	if err := os.CopyFS(s.data(), os.DirFS(snapshot)); err != nil {
		return fmt.Errorf("put back the data of %s: %w", s.recipe.name, err)
	}
	return s.start()
}
