// Package trust makes TLS settings from files: which servers a process trusts, and its own certificate. It also tells
// which handshake failures retrying cannot fix. Its settings always check the server's certificate and name. It opens no
// connection.
package trust

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// System in place of a file means the authorities that this machine trusts.
const System = "system"

// Files are in PEM. Without CAFile there is no TLS.
type Files struct {
	CAFile   string // the authorities that sign the server's certificate, or System
	CertFile string // our own certificate, empty for none
	KeyFile  string // our certificate's key
}

// Client makes the client's side of a link, nil for one without TLS. The dialler sets the server's name. An error begins
// with the key that is wrong: the section and ca_file or cert_file.
func Client(section string, f Files) (*tls.Config, error) {
	if f.CAFile == "" {
		return nil, nil //nolint:nilnil // no TLS is no mistake
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CAFile != System {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s.ca_file: %w", section, err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca_file: %s holds no certificate in PEM", section, f.CAFile)
		}
	}
	if f.CertFile == "" {
		return cfg, nil
	}
	if _, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile); err != nil {
		return nil, fmt.Errorf("%s.cert_file: %w", section, err)
	}
	// Read at each handshake, so that a certificate that is renewed in its file needs no restart.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s.cert_file: %w", section, err)
		}
		return &pair, nil
	}
	return cfg, nil
}

// Server makes the server's side of a link, with its certificate. An error begins with the key that is wrong.
func Server(section, certFile, keyFile string) (*tls.Config, error) {
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return nil, fmt.Errorf("%s.cert_file: %w", section, err)
	}
	// Read at each handshake, as above.
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("%s.cert_file: %w", section, err)
		}
		return &pair, nil
	}}, nil
}

// Refused reports whether a handshake failed because of a side's settings: we don't trust the server, it doesn't trust
// us, or it doesn't speak TLS. A retry fails until somebody changes a certificate.
func Refused(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	op, ok := errors.AsType[*net.OpError](err) // an alert of the server, whose type crypto/tls doesn't export
	return untrusted || plain || ok && op.Op == "remote error"
}

// Refusal is an error that retrying cannot fix: somebody has to correct the key that it names.
type Refusal struct {
	Key string
	Err error
}

// Error begins with the key.
func (r *Refusal) Error() string { return r.Key + ": " + r.Err.Error() }

// Unwrap returns the server's or the system's error.
func (r *Refusal) Unwrap() error { return r.Err }

// Permanent tells callers that retrying can't help.
func (r *Refusal) Permanent() bool { return true }
