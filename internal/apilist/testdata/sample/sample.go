// Package sample exports one thing of each kind.
package sample

import (
	"context"
	"io"

	"github.com/inboxd/inboxd/internal/apilist/testdata/sample/other"
)

const (
	Limit       = 3
	Name   Kind = "name"
	hidden      = 4
)

var Default, ErrGone = other.Thing{}, io.EOF

type Kind string

func (k Kind) String() string { return string(k) }

type Text = string

type inner struct {
	Deep int
	low  int
}

func (*inner) Reach() {}

type Config struct {
	inner
	other.Thing
	Size int `json:"size"`
	note string
}

func (c *Config) Set(ctx context.Context, size int) (err error) { c.Size = size + hidden; return nil }
func (c *Config) unset()                                        {}

type List[T any] struct{ Items []T }

func (l List[T]) First() T { return l.Items[0] }

type Number interface{ ~int | ~int64 }

type Reader interface {
	io.Reader
	ReadAll(f func(T other.Thing) bool) []byte
	closed()
}

func Sum[N Number](list ...N) N { var n N; return n }

func help() {}
