package segment

import (
	"encoding/binary"
	"hash/crc32"
)

// Frame is one record as it is read. Its payload is shared with other readers: do not change it.
type Frame struct {
	Offset  int64
	Time    int64 // in milliseconds since 1970
	Payload []byte
}

// A frame on disk, little-endian: length of all that follows the checksum (4 bytes), its CRC-32C (4), offset (8), the
// offset up to which the partition was on disk when this was written (8), time (8), payload. The checksum begins with a
// seed from the topic's random id and the partition's name: after a power cut a file may have blocks of another one
// that was deleted, and a body may have bytes that look like a frame.
const (
	prefixBytes = 8
	headerBytes = prefixBytes + 24
)

// maxFrameBytes bounds a frame, so that a damaged length is no reason to read gigabytes.
const maxFrameBytes = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seedOf returns the seed of the checksums in a partition, or in the state log.
func seedOf(name string) uint32 { return crc32.Checksum([]byte(name), castagnoli) }

// appendFrame appends a frame to dst. payload appends its payload.
func appendFrame(dst []byte, seed uint32, offset, synced, time int64, payload func([]byte) []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, prefixBytes)...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(offset))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(synced))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(time))
	dst = payload(dst)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-prefixBytes))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Update(seed, castagnoli, dst[at+prefixBytes:]))
	return dst
}

// frameSize returns how long the frame is with which b begins; 0 if b is too short to tell or begins with no frame.
func frameSize(b []byte) int {
	if len(b) < headerBytes {
		return 0
	}
	if n := int(binary.LittleEndian.Uint32(b)); n >= headerBytes-prefixBytes && n <= maxFrameBytes {
		return prefixBytes + n
	}
	return 0
}

// parseFrame returns the whole frame with which b begins, without looking at its checksum.
func parseFrame(b []byte) (f Frame, size int, ok bool) {
	size = frameSize(b)
	if size == 0 || size > len(b) {
		return f, size, false
	}
	return Frame{
		Offset:  int64(binary.LittleEndian.Uint64(b[prefixBytes:])),
		Time:    int64(binary.LittleEndian.Uint64(b[prefixBytes+16:])),
		Payload: b[headerBytes:size:size],
	}, size, true
}

// checkedFrame is parseFrame for bytes from a file.
func checkedFrame(seed uint32, b []byte) (f Frame, size int, ok bool) {
	f, size, ok = parseFrame(b)
	return f, size, ok && crc32.Update(seed, castagnoli, b[prefixBytes:size]) == binary.LittleEndian.Uint32(b[4:])
}

// syncedBefore returns what was on disk when the frame was written.
func syncedBefore(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b[prefixBytes+8:])) }
