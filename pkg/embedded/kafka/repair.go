package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

// An entry of kfake's state logs: length of version and JSON (4 bytes), their CRC-32C (4), version (2), JSON.
// Little-endian.
const entryHeader = 8

// repairLog removes broken entries from a state log: the remainder of a write that a SIGKILL or a full disk
// interrupted. kfake reads up to the first broken entry and nevertheless appends behind it, so that the second start
// after the interruption would lose everything that was committed in between.
func (s *Server) repairLog(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state log: %w", err)
	}
	kept := wholeEntries(raw)
	if len(kept) == len(raw) {
		return nil
	}
	s.log.Warn("removed broken entries from state log", "path", path, "bytes", len(raw)-len(kept))
	if err := s.disk.replace(path, kept); err != nil {
		return fmt.Errorf("repair state log: %w", err)
	}
	return nil
}

// wholeEntries returns the whole entries of raw, wherever they are.
func wholeEntries(raw []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	kept := make([]byte, 0, len(raw))
	for at := 0; at+entryHeader < len(raw); {
		n := int(binary.LittleEndian.Uint32(raw[at:]))
		end := at + entryHeader + n
		whole := n > 2 && n <= len(raw)-at-entryHeader &&
			crc32.Checksum(raw[at+entryHeader:end], table) == binary.LittleEndian.Uint32(raw[at+4:])
		if !whole {
			at++
			continue
		}
		kept = append(kept, raw[at:end]...)
		at = end
	}
	return kept
}

// replace replaces a file so that a crash leaves either the old or the new one.
func (d *disk) replace(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	if err := d.syncFile(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return d.syncDir(d.root)
}
