package pipelinetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates, which live as files in a folder of its own.
type Authority struct {
	CAFile string // its own certificate

	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a signed one: three files in PEM.
type Certificate struct {
	CertFile, KeyFile string
	BothFile          string // key and certificate in one, as Java wants them
}

// NewAuthority makes an authority that nobody trusts who is not told to.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a, err := newAuthority()
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(a.dir) })
	return a
}

func newAuthority() (*Authority, error) {
	base, err := runFolder()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, "authority-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for certificates: %w", err)
	}
	a := &Authority{CAFile: filepath.Join(dir, "ca.pem"), dir: dir}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := a.sign(template, template, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return a, writePEM(a.CAFile, &pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}

// Issue signs a certificate, of a server or a client, for these names and addresses; none means 127.0.0.1.
func (a *Authority) Issue(t testing.TB, name string, hosts ...string) Certificate {
	t.Helper()
	c, err := a.issue(name, hosts...)
	Must(t, err)
	return c
}

func (a *Authority) issue(name string, hosts ...string) (Certificate, error) {
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := a.sign(template, a.cert, key)
	if err != nil {
		return Certificate{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, fmt.Errorf("encode a key: %w", err)
	}
	c := Certificate{filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key"), filepath.Join(a.dir, name+"-both.pem")}
	keyBlock, certBlock := &pem.Block{Type: "PRIVATE KEY", Bytes: private}, &pem.Block{Type: "CERTIFICATE", Bytes: der}
	for path, blocks := range map[string][]*pem.Block{
		c.KeyFile: {keyBlock}, c.CertFile: {certBlock}, c.BothFile: {keyBlock, certBlock},
	} {
		if err := writePEM(path, blocks...); err != nil {
			return c, err
		}
	}
	return c, nil
}

func writePEM(path string, blocks ...*pem.Block) error {
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Signed answers nil for a certificate of this authority.
func (a *Authority) Signed(t testing.TB, der []byte) error {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	Must(t, err)
	return c.CheckSignatureFrom(a.cert)
}
