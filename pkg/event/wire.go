package event

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
)

// The helpers below leave out zero values, as protocol buffers do.

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

// appendFields writes each header line as a message {1: name, 2: value}.
func appendFields(b []byte, num protowire.Number, fields []Field) []byte {
	for _, f := range fields {
		size := protowire.SizeTag(1) + protowire.SizeBytes(len(f.Name)) + protowire.SizeTag(2) + protowire.SizeBytes(len(f.Value))
		b = protowire.AppendTag(b, num, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(size))
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), f.Name)
		b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), f.Value)
	}
	return b
}

// eachField walks a message: bytes fields give b, varints give n, anything else is skipped.
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

func readField(fields *[]Field, b []byte) error {
	var f Field
	err := eachField(b, func(num protowire.Number, v []byte, _ int64) error {
		switch num {
		case 1:
			f.Name = string(v)
		case 2:
			f.Value = string(v)
		}
		return nil
	})
	*fields = append(*fields, f)
	return err
}
