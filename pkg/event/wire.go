package event

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
)

// The functions below leave out zero values, as protocol buffers do.

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendString(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendInt(b []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
}

// eachField calls f for each field of a message, with b for a bytes field and n for a varint. It skips other types.
func eachField(msg []byte, f func(num protowire.Number, b []byte, n int64) error) error {
	for len(msg) > 0 {
		num, typ, size := protowire.ConsumeTag(msg)
		if size < 0 {
			return protowire.ParseError(size)
		}
		msg = msg[size:]
		var b []byte
		var n uint64
		switch typ {
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(msg)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(msg)
		default:
			size = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		msg = msg[size:]
		if typ != protowire.BytesType && typ != protowire.VarintType {
			continue
		}
		if err := f(num, b, int64(n)); err != nil {
			return fmt.Errorf("field %d: %w", num, err)
		}
	}
	return nil
}

func readID(d *id.ID, b []byte) error {
	if len(b) != len(d) {
		return errors.New("id is not 16 bytes long")
	}
	copy(d[:], b)
	return nil
}
