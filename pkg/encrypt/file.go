package encrypt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// reread is how long a file's keys count without another look.
const reread = 10 * time.Second

// File reads keys from a file: a line each with an id, a blank, and 32 bytes in base64. The first line's key encrypts new payloads; all of
// them decrypt. Empty lines and lines that begin with # count for nothing.
//
// To rotate, add the new key as the last line everywhere, then as the first; take the old one out once no task that it encrypted is left.
// The file is read again within 10 seconds, and at once for a key that it lacked. One that can't be read then leaves the keys as they
// were. The function is safe for concurrent use.
func File(path string) (KeyFunc, error) {
	f := &file{path: path}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f.key, nil
}

type file struct {
	path string

	mu   sync.Mutex
	at   time.Time
	keys []Key
}

func (f *file) key(id string) (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) > reread {
		_ = f.read() // an error leaves the keys as they were
	}
	if key, ok := f.find(id); ok {
		return key, nil
	}
	if err := f.read(); err != nil {
		return Key{}, err
	}
	if key, ok := f.find(id); ok {
		return key, nil
	}
	return Key{}, errors.New("the file of keys does not have it")
}

func (f *file) find(id string) (Key, bool) {
	for _, key := range f.keys {
		if id == "" || key.ID == id {
			return key, true
		}
	}
	return Key{}, false
}

func (f *file) read() error {
	f.at = time.Now()
	text, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read the file of keys: %w", err)
	}
	var keys []Key
	for i, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		key, err := parse(words)
		if err != nil {
			return fmt.Errorf("line %d of the file of keys: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return errors.New("the file of keys has none")
	}
	f.keys = keys
	return nil
}

// parse reads a line. Its errors do not tell the secret.
func parse(words []string) (Key, error) {
	if len(words) != 2 {
		return Key{}, errors.New("must be an id, a blank, and 32 bytes in base64")
	}
	secret, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil || len(secret) != secretBytes {
		return Key{}, fmt.Errorf("the secret of key %q must be %d bytes in base64", words[0], secretBytes)
	}
	return Key{words[0], secret}, nil
}
