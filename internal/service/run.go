package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run runs until ctx ends and then stops cleanly, or, with UntilIdle, until no
// lane can run any more. Its error says what a stop cut short.
func (s *Service) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var parts, reporter sync.WaitGroup
	var lanesErr, sourceErr error
	parts.Go(func() {
		defer stop()
		lanesErr = s.Processor.Run(running)
	})
	if s.source != nil {
		parts.Go(func() {
			defer stop()
			if sourceErr = s.source.Run(running); sourceErr != nil {
				sourceErr = fmt.Errorf("kafka: %w", sourceErr)
			}
		})
	}
	reporting, stopReporting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReporting()
	reporter.Go(func() { s.report(reporting) })
	if s.notes != nil {
		reporter.Go(func() { s.notes.run(reporting) })
	}
	parts.Wait()
	stopReporting()
	reporter.Wait()
	return errors.Join(lanesErr, sourceErr)
}

// Abort ends at once what runs: it is rolled back. Run then returns.
func (s *Service) Abort() { s.Processor.Abort() }

// reportEvery is how often it is logged what happened.
const reportEvery = 10 * time.Second

// report logs the counts from time to time, and once more at the end, if they
// changed.
func (s *Service) report(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	last := Counts{}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.logSince(last)
			return
		}
		last = s.logSince(last)
	}
}

func (s *Service) logSince(last Counts) Counts {
	now := s.Counts()
	lag, stopped := s.behind()
	if now == last && len(stopped) == 0 {
		return now
	}
	d := now.Minus(last)
	attrs := []any{"stored", d.Stored, "processed", d.Processed}
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"duplicates", d.Duplicates}, {"conflicts", d.Conflicts}, {"quarantined", d.Quarantined}, {"ignored", d.Ignored},
		{"failed_attempts", d.Failed}, {"became_stuck", d.Stuck}, {"skipped", d.Skipped},
	} {
		if c.n != 0 {
			attrs = append(attrs, c.name, c.n)
		}
	}
	attrs = append(attrs, lag...)
	if len(stopped) > 0 {
		s.log.Error("progress, without the partitions that have stopped: see inboxd sources list", append(attrs, "stopped", stopped)...)
		return now
	}
	s.log.Info("progress", attrs...)
	return now
}
