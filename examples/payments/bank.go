package payments

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// HTTPBank is a Bank that is reached by HTTP.
type HTTPBank struct {
	// URL is where transfers are posted to.
	URL string
	// Client is what calls it. Its Timeout should be shorter than the handler's.
	Client *http.Client
}

// Send posts a transfer.
func (b HTTPBank) Send(ctx context.Context, key, iban string, cents int64) (string, error) {
	form := url.Values{"iban": {iban}, "cents": {strconv.FormatInt(cents, 10)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", key)
	res, err := b.Client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBankDown, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	switch {
	case err != nil, res.StatusCode == http.StatusServiceUnavailable:
		return "", fmt.Errorf("%w: %s", ErrBankDown, res.Status)
	case res.StatusCode != http.StatusOK:
		return "", fmt.Errorf("the bank answered %s: %s", res.Status, body)
	}
	return string(body), nil
}
