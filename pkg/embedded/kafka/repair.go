package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

// An entry of kfake's state logs: length (4) of what follows the checksum, CRC-32C (4) of that, version
// (2), JSON. Little-endian.
const entryHeader = 8

// repairLog takes out of a state log what is no whole entry: the rest of a write that a SIGKILL or a full
// disk cut short. kfake stops reading there and yet goes on appending behind it, so that at the start
// after the next one all that was committed in between would be gone.
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
	s.log.Warn("state log held broken entries", "path", path, "bytes", len(raw)-len(kept))
	if err := s.disk.replace(path, kept); err != nil {
		return fmt.Errorf("repair state log: %w", err)
	}
	return nil
}

// wholeEntries returns the entries of raw that are whole, wherever they are.
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

// replace writes a file anew so that at any moment either the old or the new one is there.
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
