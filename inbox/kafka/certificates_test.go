package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // of its own certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.file = filepath.Join(a.dir, "ca.pem")
	var der []byte
	der, a.key = a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func (a *authority) make(template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// sign makes a certificate for a name, for servers on this machine and for
// clients, and writes it and its key to files.
func (a *authority) sign(name string, hosts ...net.IP) (certFile, keyFile string) {
	a.t.Helper()
	der, key := a.make(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: hosts,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	writePEM(a.t, certFile, "CERTIFICATE", der)
	writePEM(a.t, keyFile, "PRIVATE KEY", secret)
	return certFile, keyFile
}

// server is the configuration of a broker of this machine.
func (a *authority) server(name string, hosts ...net.IP) *tls.Config {
	a.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.sign(name, hosts...))
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: a.pool(), MinVersion: tls.VersionTLS12}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	writeFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil { // as whoever rotates secrets does it
		t.Fatal(err)
	}
}
