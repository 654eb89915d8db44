package dev

import (
	"context"

	"github.com/inboxd/inboxd/internal/postgres"
)

// Runs reports whether the server of a directory runs. It starts none.
func Runs(ctx context.Context, dir Directory) bool {
	_, err := postgres.Attach(ctx, dir.postgres())
	return err == nil
}
