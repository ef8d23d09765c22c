package conflog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/stream"
)

// errTorn means that a snapshot does not match its footer.
var errTorn = errors.New("snapshot is torn")

// readParts calls each for the parts that a footer names, in order, and skips the records between them.
func (sn snapshots) readParts(ctx context.Context, f snapshotFooter, each func(i int, value []byte) error) error {
	read := 0
	err := sn.readRange(ctx, snapshotLog, f.Parts[0].Offset, f.Parts[len(f.Parts)-1].Offset+1,
		func(r *stream.Record) error {
			p := f.Parts[read]
			if r.Offset < p.Offset {
				return nil // of another snapshot, written at the same time
			}
			if got := sha256.Sum256(r.Value); r.Offset > p.Offset || !bytes.Equal(got[:], p.SHA256) {
				return fmt.Errorf("%w: offset %[4]d does not hold part %[2]d of %[3]d", errTorn, read, len(f.Parts), p.Offset)
			}
			read++
			return each(read-1, r.Value)
		})
	if err == nil && read < len(f.Parts) {
		err = fmt.Errorf("%w: only %d of %d parts exist", errTorn, read, len(f.Parts))
	}
	return err
}

// load reads and verifies a snapshot. Chunks are decoded while the next ones are fetched.
func (sn snapshots) load(ctx context.Context, f snapshotFooter) (*state, error) {
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, fmt.Errorf("create zstd decoder: %w", err)
	}
	defer unzip.Close()
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	var header snapshotHeader
	parts := make([][]*Entity, len(f.Parts)) // the header has none
	err = sn.readParts(ctx, f, func(i int, value []byte) error {
		if i == 0 {
			return json.Unmarshal(value, &header)
		}
		workers.Go(func() error {
			lines, err := unzip.DecodeAll(value, nil)
			if err == nil {
				parts[i], err = sn.readLines(lines)
			}
			return err
		})
		return nil
	})
	if err := errors.Join(err, workers.Wait()); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	s := newState(sn.kinds)
	s.seq, s.level = f.Seq, max(f.Level, baseLevel)
	for i, ops := range header.Ops {
		s.ops[i] = unpackOps(ops)
	}
	for _, entities := range parts {
		for _, e := range entities {
			s.insertLoaded(e)
		}
	}
	return s, nil
}
