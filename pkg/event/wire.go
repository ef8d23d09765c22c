package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
)

// codec writes or reads a message in the protocol buffers encoding. The method `fields` of a message passes each field
// with its number to a method of codec, which then writes the value or sets it. So one list serves both directions.
//
// A number is never reused for another field. Zero values are left out. A reader skips numbers that it does not know,
// so nodes of two versions read each other's records. Of a repeated field the last value counts.
type codec struct {
	writing bool
	out     []byte // the message, in writing
	in      [maxField + 1]struct {
		present bool
		b       []byte // of a bytes field
		n       int64  // of a varint
	}
	err error // of reading
}

// maxField is the highest field number of a message.
const maxField = 21

// read takes the fields of a message. It skips types other than bytes and varint.
func (c *codec) read(msg []byte) {
	for len(msg) > 0 {
		num, typ, size := protowire.ConsumeTag(msg)
		if size < 0 {
			c.err = protowire.ParseError(size)
			return
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
			c.err = protowire.ParseError(size)
			return
		}
		msg = msg[size:]
		if num <= maxField && (typ == protowire.BytesType || typ == protowire.VarintType) {
			f := &c.in[num]
			f.present, f.b, f.n = true, b, int64(n)
		}
	}
}

// bytes writes v, or returns the bytes that were read; ok is false if there are none.
func (c *codec) bytes(num protowire.Number, v []byte) (read []byte, ok bool) {
	if !c.writing {
		return c.in[num].b, c.in[num].present
	}
	if len(v) > 0 {
		c.out = protowire.AppendBytes(protowire.AppendTag(c.out, num, protowire.BytesType), v)
	}
	return nil, false
}

// number writes v, or returns the number that was read; ok is false if there is none.
func (c *codec) number(num protowire.Number, v int64) (read int64, ok bool) {
	if !c.writing {
		return c.in[num].n, c.in[num].present
	}
	if v != 0 {
		c.out = protowire.AppendVarint(protowire.AppendTag(c.out, num, protowire.VarintType), uint64(v))
	}
	return 0, false
}

// text passes a string. Reading one of the frequent values does not allocate.
func text[T ~string](c *codec, num protowire.Number, v *T, frequent ...T) {
	switch {
	case !c.writing && c.in[num].present:
		*v = intern(c.in[num].b, frequent...)
	case c.writing && *v != "":
		c.out = protowire.AppendString(protowire.AppendTag(c.out, num, protowire.BytesType), string(*v))
	}
}

// intern converts b to a string; it allocates only when b is none of words.
func intern[T ~string](b []byte, words ...T) T {
	for _, w := range words {
		if string(b) == string(w) {
			return w
		}
	}
	return T(b)
}

func (c *codec) status(num protowire.Number, v *Status) {
	text(c, num, v, Delivered, Retrying, Failed, Skipped, Pending, Held)
}

func (c *codec) trigger(num protowire.Number, v *Trigger) {
	text(c, num, v, TriggerInitial, TriggerRetry)
}

// data passes bytes that share the record's memory.
func (c *codec) data(num protowire.Number, v *[]byte) {
	if b, ok := c.bytes(num, *v); ok {
		*v = b
	}
}

func (c *codec) id(num protowire.Number, v *id.ID) {
	b, ok := c.bytes(num, v[:])
	if ok && len(b) != len(v) {
		c.fail(num, errors.New("id is not 16 bytes long"))
	}
	copy(v[:], b)
}

// fail keeps the first error of reading.
func (c *codec) fail(num protowire.Number, err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("field %d: %w", num, err)
	}
}

// attempt passes a message within the message; nil is left out.
func (c *codec) attempt(num protowire.Number, v **Attempt) {
	switch {
	case c.writing && *v != nil:
		c.out = protowire.AppendTag(c.out, num, protowire.BytesType)
		start := len(c.out)
		(*v).fields(c)
		var space [binary.MaxVarintLen64]byte
		c.out = slices.Insert(c.out, start, protowire.AppendVarint(space[:0], uint64(len(c.out)-start))...)
	case !c.writing && c.in[num].present:
		var inner codec
		inner.read(c.in[num].b)
		*v = &Attempt{}
		(*v).fields(&inner)
		c.fail(num, inner.err)
	}
}

func (c *codec) address(num protowire.Number, v *netip.Addr) {
	if b, ok := c.bytes(num, v.AsSlice()); ok {
		*v, _ = netip.AddrFromSlice(b)
	}
}

func (c *codec) int(num protowire.Number, v *int) {
	if n, ok := c.number(num, int64(*v)); ok {
		*v = int(n)
	}
}

func (c *codec) bool(num protowire.Number, v *bool) {
	if n, ok := c.number(num, int64(protowire.EncodeBool(*v))); ok {
		*v = n != 0
	}
}

func (c *codec) time(num protowire.Number, v *time.Time) {
	if n, ok := c.number(num, unixMilli(*v)); ok {
		*v = fromMilli(n)
	}
}

func (c *codec) duration(num protowire.Number, v *time.Duration, unit time.Duration) {
	if n, ok := c.number(num, int64(*v/unit)); ok {
		*v = time.Duration(n) * unit
	}
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
