package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/inboxd/inboxd/handlers"
)

// StatusError is why an attempt failed whose request was answered, but not with a
// 2xx.
type StatusError struct {
	// URL is the endpoint, without its parameters.
	URL string
	// Code is the answer's status code.
	Code int
	// Body is the beginning of the answer's body, at most 300 bytes, secrets taken
	// out.
	Body string
	// Location is where a redirect leads to; it was not followed.
	Location string
}

// Error says what was answered.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("webhook %s answered %d", e.URL, e.Code)
	if name := http.StatusText(e.Code); name != "" {
		text += " " + name
	}
	if e.Location != "" {
		text += fmt.Sprintf(", a redirect to %q; it was not followed: set the URL that it leads to", e.Location)
	}
	if e.Body != "" {
		text += fmt.Sprintf(": %q", e.Body)
	}
	return text
}

// DependencyDown reports that the answer comes from what stands before the
// endpoint, or that it is not at work, which is no fault of the event.
func (e *StatusError) DependencyDown() bool {
	switch e.Code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// NoAnswerError is why an attempt failed whose request got no answer.
type NoAnswerError struct {
	// URL is the endpoint, without its parameters.
	URL string
	// Sent reports that a connection had been made, so that the endpoint may have
	// got the request.
	Sent bool
	// Timeout is the time that was up; 0: it was something else.
	Timeout time.Duration
	// Err is the cause.
	Err error
}

// Error says what happened.
func (e *NoAnswerError) Error() string {
	switch {
	case e.Timeout > 0 && e.Sent:
		return fmt.Sprintf("webhook %s did not answer within %s", e.URL, e.Timeout)
	case e.Timeout > 0:
		return fmt.Sprintf("webhook %s cannot be reached: no connection within %s", e.URL, e.Timeout)
	case e.Sent:
		return fmt.Sprintf("webhook %s gave no answer: %s", e.URL, e.Err)
	}
	return fmt.Sprintf("webhook %s cannot be reached: %s", e.URL, e.Err)
}

// Unwrap gives the cause.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// DependencyDown is true: no answer is the endpoint's failure, until it turns out
// that only one event has it.
func (e *NoAnswerError) DependencyDown() bool { return true }

// longestRetryAfter bounds what an endpoint may ask for.
const longestRetryAfter = time.Hour

// outcome is what an answer that is no 2xx means.
func outcome(err *StatusError, header http.Header) error {
	switch err.Code {
	case http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return handlers.Permanent(err)
	}
	switch {
	case err.Code == http.StatusRequestTimeout, err.Code == http.StatusTooEarly, err.Code == http.StatusTooManyRequests, err.Code >= 500:
		if after := retryAfter(header.Get("Retry-After"), time.Now()); after > 0 {
			return handlers.RetryAfter(err, after)
		}
	}
	return err
}

// retryAfter reads a number of seconds or a time; 0: neither, or it is past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), longestRetryAfter)
	}
	return 0
}
