package consoleweb

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	hashName      = "pbkdf2-sha256"
	hashRounds    = 300_000 // once for each sign-in: later requests are compared with the last right password
	minHashRounds = 10_000
	maxHashRounds = 10_000_000
	hashBytes     = 32
	saltBytes     = 16
)

const (
	maxSignIns        = 64 // that wait to be compared, 0.1 s each
	maxNetworkSignIns = 16 // of one network, so that a guesser there leaves room for the sign-ins of others
	retrySignIn       = 5 * time.Second
)

// absentPassword is a hash that no password has: it stands for those of absent users.
const absentPassword = hashName + "$10000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// HashPassword returns what User.Password takes in place of a password: pbkdf2-sha256$rounds$salt$hash.
func HashPassword(password string) (string, error) { return hashPassword(password, hashRounds) }

func hashPassword(password string, rounds int) (string, error) {
	if len(password) < minPassword {
		return "", fmt.Errorf("the password has fewer than %d characters", minPassword)
	}
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	key, err := pbkdf2.Key(sha256.New, password, salt, rounds, hashBytes)
	if err != nil {
		return "", err
	}
	return strings.Join([]string{
		hashName, strconv.Itoa(rounds), base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key),
	}, "$"), nil
}

// passwordHash is a hash as it is written.
type passwordHash struct {
	rounds    int
	salt, key []byte
}

// parseHash reads a hash; false for a text that is none, such as a plain password.
func parseHash(text string) (h passwordHash, isHash bool, err error) {
	parts := strings.Split(text, "$")
	if parts[0] != hashName {
		return h, false, nil
	}
	bad := fmt.Errorf("the hash is not of the form %s$rounds$salt$hash", hashName)
	if len(parts) != 4 {
		return h, true, bad
	}
	if h.rounds, err = strconv.Atoi(parts[1]); err != nil || h.rounds < minHashRounds || h.rounds > maxHashRounds {
		return h, true, fmt.Errorf("the rounds of a hash must be %d to %d", minHashRounds, maxHashRounds)
	}
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[2]); err != nil || len(h.salt) < saltBytes {
		return h, true, bad
	}
	if h.key, err = base64.RawStdEncoding.DecodeString(parts[3]); err != nil || len(h.key) != hashBytes {
		return h, true, bad
	}
	return h, true, nil
}

// hashed returns the users with hashes alone: a plain password would be compared in no time, and tell that its user is there.
func hashed(users []User) ([]User, error) {
	users = slices.Clone(users)
	for i, u := range users {
		_, isHash, err := parseHash(u.Password)
		if err == nil && !isHash {
			users[i].Password, err = HashPassword(u.Password)
		}
		if err != nil {
			return nil, fmt.Errorf("console: user %s: %w", u.Name, err)
		}
	}
	return users, nil
}

// passwords compares passwords, and remembers of each user the last right one, as a keyed hash: browsers send it with each
// request. Others are compared one after the other, so that guesses take one processor at most, and few of them wait.
type passwords struct {
	key    []byte
	rounds int           // of each comparison with a wrong password
	busy   chan struct{} // holds one value while a hash is computed
	seen   sync.Map      // by user: the keyed hash

	mu      sync.Mutex
	waiting map[netip.Prefix]int // sign-ins by network, with the one whose hash is computed
	total   int                  // of them
}

func newPasswords(users []User) *passwords {
	p := &passwords{
		key: make([]byte, hashBytes), rounds: minHashRounds, busy: make(chan struct{}, 1), waiting: map[netip.Prefix]int{},
	}
	_, _ = rand.Read(p.key) // never fails
	for _, u := range users {
		if h, _, err := parseHash(u.Password); err == nil {
			p.rounds = max(p.rounds, h.rounds)
		}
	}
	return p
}

// right compares a password. Its errors are errManySignIns, and that of a context that ends before the comparison.
func (p *passwords) right(ctx context.Context, from netip.Prefix, user, given, want string) (bool, error) {
	digest := p.digest(user, given, want)
	if p.remembers(user, digest) {
		return true, nil
	}
	if !p.enter(from) {
		return false, errManySignIns
	}
	defer p.leave(from)
	select {
	case p.busy <- struct{}{}:
		defer func() { <-p.busy }()
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil: // also if both cases of the select were ready
		return false, ctx.Err()
	case p.remembers(user, digest): // another request of the same browser was before this one
		return true, nil
	case !samePassword(given, want, p.rounds):
		return false, nil
	}
	p.seen.Store(user, digest)
	return true, nil
}

func (p *passwords) digest(user, given, want string) []byte {
	mac := hmac.New(sha256.New, p.key)
	_, _ = mac.Write([]byte(user + "\x00" + want + "\x00" + given)) // never fails
	return mac.Sum(nil)
}

func (p *passwords) remembers(user string, digest []byte) bool {
	last, ok := p.seen.Load(user)
	known, is := last.([]byte)
	return ok && is && hmac.Equal(known, digest)
}

// enter counts a sign-in that waits; false if too many do. Call leave after the comparison.
func (p *passwords) enter(from netip.Prefix) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == maxSignIns || p.waiting[from] == maxNetworkSignIns {
		return false
	}
	p.total++
	p.waiting[from]++
	return true
}

func (p *passwords) leave(from netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	if p.waiting[from]--; p.waiting[from] == 0 {
		delete(p.waiting, from)
	}
}

// samePassword compares a password with a hash. If it is wrong, the comparison takes all the rounds, whichever the hash has.
func samePassword(given, want string, rounds int) bool {
	h, isHash, err := parseHash(want)
	if err != nil || !isHash {
		return false
	}
	key, err := pbkdf2.Key(sha256.New, given, h.salt, h.rounds, len(h.key))
	if err == nil && subtle.ConstantTimeCompare(key, h.key) == 1 {
		return true
	}
	if more := rounds - h.rounds; more > 0 {
		_, _ = pbkdf2.Key(sha256.New, given, h.salt, more, len(h.key))
	}
	return false
}

// ParseUsers reads users, parted by spaces or line breaks: name:role:password, where the role is read, operate, or some verbs of it as
// in operate(move+cancel), and the password is a hash or plain. Lines that begin with # are comments.
func ParseUsers(text string) ([]User, error) {
	var users []User
	err := eachLogin(text, func(name string, g Grant, secret string) {
		users = append(users, User{Name: name, Password: secret, Grant: g})
	})
	return users, err
}

// ParseTokens reads tokens as ParseUsers reads users: name:role:token.
func ParseTokens(text string) ([]Token, error) {
	var tokens []Token
	err := eachLogin(text, func(name string, g Grant, secret string) {
		tokens = append(tokens, Token{Name: name, Token: secret, Grant: g})
	})
	return tokens, err
}

// eachLogin never repeats an entry in an error: a password is in it.
func eachLogin(text string, add func(name string, g Grant, secret string)) error {
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, entry := range strings.Fields(line) {
			n++
			parts := strings.SplitN(entry, ":", 3)
			if len(parts) != 3 || parts[0] == "" || parts[2] == "" {
				return fmt.Errorf("entry %d is not of the form name:role:secret", n)
			}
			g, err := parseGrant(parts[1])
			if err != nil {
				return fmt.Errorf("entry %d is not of the form name:role:secret: its role is none of none, read and operate, "+
					"or its verbs are none of %s", n, strings.Join(Verbs(), ", "))
			}
			add(parts[0], g, parts[2])
		}
	}
	return nil
}

// ParseProxy makes a proxy of addresses, such as 10.0.0.0/8 or 10.1.2.3, headers, and roles as user=role.
func ParseProxy(from []string, userHeader, roleHeader string, roles []string) (Proxy, error) {
	p := Proxy{UserHeader: userHeader, RoleHeader: roleHeader, Roles: map[string]Grant{}}
	for _, text := range from {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, wrong := netip.ParseAddr(text)
			if wrong != nil {
				return p, fmt.Errorf("%q is no address such as 10.1.2.3 or 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		p.From = append(p.From, prefix.Masked())
	}
	for _, text := range roles {
		user, role, _ := strings.Cut(text, "=")
		g, err := parseGrant(role)
		if err != nil || user == "" {
			return p, fmt.Errorf("%q is not of the form user=role", text)
		}
		p.Roles[user] = g
	}
	return p, p.check()
}
