package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/inboxd/inboxd/inbox"
)

// MaxLine is the longest line that is read, in bytes, its end not counted.
const MaxLine = 64 << 20

// TooLongError is returned by Reader.Next for a line longer than MaxLine, which
// it has passed over. The lines after it can be read.
type TooLongError struct {
	// Line is its number, from 1.
	Line int64
	// Bytes is its length.
	Bytes int64
}

// Error says which line it is, and how long it may be.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("line %d has %d bytes, more than the %d that one event can have", e.Line, e.Bytes, MaxLine)
}

// Reader splits an input into lines.
type Reader struct {
	in   *bufio.Reader
	max  int
	line int64
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 256<<10), max: MaxLine}
}

// byteOrderMark is what some editors put at the beginning of a file.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Next returns the next line that is not blank, as a record. At the end of the
// input it returns io.EOF.
func (r *Reader) Next() (inbox.Record, error) {
	for {
		line, err := r.next()
		if err != nil {
			return inbox.Record{}, err
		}
		if r.line == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if firstByte(line) != 0 || bytes.IndexByte(line, 0) >= 0 {
			return inbox.Record{Value: line}, nil
		}
	}
}

// Line is the number of the line that Next returned last, from 1.
func (r *Reader) Line() int64 { return r.line }

// next returns a copy of the next line, without its end.
func (r *Reader) next() ([]byte, error) {
	var line []byte
	var size int64
	for {
		piece, err := r.in.ReadSlice('\n')
		size += int64(len(piece))
		if size <= int64(r.max)+1 {
			line = append(line, piece...)
		} else {
			line = nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil:
			size-- // its end
		case !errors.Is(err, io.EOF):
			return nil, err
		case size == 0:
			return nil, io.EOF
		}
		r.line++
		if size > int64(r.max) {
			return nil, &TooLongError{Line: r.line, Bytes: size}
		}
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}
