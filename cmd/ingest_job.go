package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/jsonl"
)

// What one transaction takes at most.
const (
	ingestEvents = 1000
	ingestBytes  = 4 << 20
)

// ingestJob stores the lines of one input.
type ingestJob struct {
	reader   *jsonl.Reader
	endless  bool // a read of the input may never return
	decoder  *lineDecoder
	ingester *inbox.Ingester
	log      *slog.Logger

	lines   int64 // that are done with, blank ones not counted
	last    int64 // the number of the last of them
	tooLong int64 // that were passed over
}

func newIngestJob(store *inbox.Store, in io.Reader, endless bool, ignored func(string) bool, log *slog.Logger) *ingestJob {
	decoder := &lineDecoder{lines: jsonl.NewDecoder()}
	return &ingestJob{
		reader: jsonl.NewReader(in), endless: endless, decoder: decoder, log: log,
		ingester: &inbox.Ingester{Store: store, Decoder: decoder, Ignored: ignored},
	}
}

// batch is what goes into one transaction.
type batch struct {
	records []inbox.Record
	numbers []int64 // of the lines
	err     error   // what ended the reading, or passed over a line
}

// run reads ahead by one batch while another is stored.
func (j *ingestJob) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan batch, 1)
	reading := make(chan struct{})
	go func() { defer close(reading); j.read(ctx, batches) }()
	defer func() {
		cancel()
		if !j.endless {
			<-reading
		}
	}()
	said := time.Now()
	for {
		var b batch
		select {
		case b = <-batches:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := j.store(ctx, b); err != nil {
			return err
		}
		switch {
		case b.err == nil || isTooLong(b.err):
		case errors.Is(b.err, io.EOF):
			return nil
		default:
			return failed("read the line after line %d: %w", j.last, b.err)
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			j.log.Info("ingesting", "lines", j.lines)
		}
	}
}

// read sends batches until one has an error that ends the input.
func (j *ingestJob) read(ctx context.Context, batches chan<- batch) {
	for {
		b := j.fill()
		select {
		case batches <- b:
		case <-ctx.Done():
			return
		}
		if b.err != nil && !isTooLong(b.err) {
			return
		}
	}
}

func isTooLong(err error) bool {
	var long *jsonl.TooLongError
	return errors.As(err, &long)
}

// fill reads one batch.
func (j *ingestJob) fill() (b batch) {
	for size := 0; len(b.records) < ingestEvents && size < ingestBytes; {
		record, err := j.reader.Next()
		if err != nil {
			b.err = err
			return b
		}
		b.records = append(b.records, record)
		b.numbers = append(b.numbers, j.reader.Line())
		size += len(record.Value)
	}
	return b
}

// store stores a batch in one transaction.
func (j *ingestJob) store(ctx context.Context, b batch) error {
	if isTooLong(b.err) {
		j.tooLong++
		j.decoder.note(b.err.Error())
	}
	if len(b.records) == 0 {
		return nil
	}
	j.decoder.numbers = b.numbers
	if err := j.ingester.Ingest(ctx, b.records); err != nil {
		return err
	}
	j.lines += int64(len(b.records))
	j.last = b.numbers[len(b.numbers)-1]
	return nil
}

// failure says how far it came.
func (j *ingestJob) failure(ctx context.Context, err error) error {
	so := fmt.Sprintf("%s up to line %d %s stored", count(j.lines, "line"), j.last, agree(j.lines, "is", "are"))
	if j.lines == 0 {
		so = "no line is stored"
	}
	const again = "run it again: what is stored already is dropped as a duplicate"
	if ctx.Err() != nil {
		return failed("interrupted; %s", so).withHint(again)
	}
	err = databaseFailure(err)
	var known *exitError
	if !errors.As(err, &known) {
		known = failed("%w", err)
	}
	known.err = fmt.Errorf("%w; %s", known.err, so)
	known.hint = strings.TrimPrefix(known.hint+"; then "+again, "; then ")
	return known
}

// maxRefusedSaid bounds how many lines are named.
const maxRefusedSaid = 10

// lineDecoder remembers why lines were refused. It relies on lines being
// decoded in their order, once each.
type lineDecoder struct {
	lines   *jsonl.Decoder
	numbers []int64 // of the lines that come next
	refused []string
}

// Decode implements inbox.Decoder.
func (d *lineDecoder) Decode(line inbox.Record) (inbox.Event, error) {
	number := d.numbers[0]
	d.numbers = d.numbers[1:]
	event, err := d.lines.Decode(line)
	var refusal *inbox.Refusal
	if errors.As(err, &refusal) {
		d.note(fmt.Sprintf("line %d: %s", number, refusal.Detail))
	}
	return event, err
}

func (d *lineDecoder) note(why string) {
	switch {
	case len(d.refused) < maxRefusedSaid:
		d.refused = append(d.refused, why)
	case len(d.refused) == maxRefusedSaid:
		d.refused = append(d.refused, "…")
	}
}
