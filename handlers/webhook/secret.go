package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/inboxd/inboxd/internal/secret"
)

// Secret gives a secret each time that one is needed, so that it may change while
// the program runs. What space is around it does not count. It may be called by
// several goroutines at once. An error pauses the event type (handlers.Pause), and
// must not show the secret.
type Secret func() (string, error)

// SecretFile reads a secret from a file.
func SecretFile(path string) Secret {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			return "", fmt.Errorf("the file %s cannot be read: %w", path, pathErr.Err)
		}
		return string(b), err
	}
}

// SecretValue is a secret that does not change, such as one from the environment.
func SecretValue(value string) Secret {
	return func() (string, error) { return value, nil }
}

// secrets are those of one request.
type secrets struct {
	token string
	keys  [][]byte
	// hidden: in place of token and signatures stands that there are some.
	hidden, hasToken, hasKeys bool
}

// secrets reads the secrets for a request.
func (h *Hook) secrets() (secrets, error) {
	var s secrets
	if h.cfg.Token != nil {
		token, err := read(h.cfg.Token)
		if err == nil && !isHeaderValue(token) {
			err = errors.New("it holds something that HTTP cannot carry")
		}
		if err != nil {
			return s, fmt.Errorf("webhook %s: the token: %w", h.shown, err)
		}
		s.token = token
	}
	if h.cfg.Signature != nil {
		text, err := read(h.cfg.Signature)
		if err == nil {
			s.keys, err = signingKeys(text)
		}
		if err != nil {
			return s, fmt.Errorf("webhook %s: the signing key: %w", h.shown, err)
		}
	}
	return s, nil
}

func read(s Secret) (string, error) {
	text, err := s()
	if text = strings.TrimSpace(text); err == nil && text == "" {
		err = errors.New("it is empty")
	}
	return text, err
}

// hidden stands for the secrets where people look.
func (h *Hook) hidden() secrets {
	return secrets{hidden: true, hasToken: h.cfg.Token != nil, hasKeys: h.cfg.Signature != nil}
}

// signingKeys reads one key a line.
func signingKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		encoded, isBase64 := strings.CutPrefix(line, "whsec_")
		key := []byte(line)
		if isBase64 {
			var err error
			if key, err = base64.StdEncoding.DecodeString(encoded); err != nil || len(key) == 0 {
				return nil, errors.New("what follows whsec_ is no base64") // the error of decoding tells of the key
			}
		}
		if len(key) > 0 {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// add puts token and signature into a request's headers.
func (s secrets) add(header http.Header, tokenHeader, key string, now time.Time, body []byte) {
	token := s.token
	if s.hidden && s.hasToken {
		token = secret.Hidden
	}
	if token != "" {
		if http.CanonicalHeaderKey(tokenHeader) == authorization {
			token = "Bearer " + token
		}
		header.Set(tokenHeader, token)
	}
	if len(s.keys) == 0 && !s.hasKeys {
		return
	}
	// The signed text is joined by full stops, so the id has none.
	id, at := strings.ReplaceAll(key, ".", "%2E"), strconv.FormatInt(now.Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", at)
	header.Set("Webhook-Signature", s.signatures(id, at, body))
}

func (s secrets) signatures(id, at string, body []byte) string {
	if s.hidden {
		return "v1," + secret.Hidden
	}
	signed := make([]string, len(s.keys))
	for i, key := range s.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		signed[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signed, " ")
}

// censor takes the secrets out of what an endpoint said.
func (s secrets) censor(said []byte) []byte {
	if s.token != "" {
		said = bytes.ReplaceAll(said, []byte(s.token), []byte(secret.Hidden))
	}
	for _, key := range s.keys {
		said = bytes.ReplaceAll(said, key, []byte(secret.Hidden))
	}
	return said
}
