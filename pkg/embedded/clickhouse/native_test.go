package clickhouse

import (
	"bytes"
	"testing"
)

// TestTranslate: a block of revision 0 has the numbers of columns and rows, and for each column name, type and data. A
// newer revision begins with the block info and has a flag after each type.
func TestTranslate(t *testing.T) {
	info := "\x01\x00\x02\xff\xff\xff\xff\x00"
	for _, c := range []struct{ name, blocks, want string }{
		{"number", "\x01\x02\x01n\x05UInt8\x07\x08", info + "\x01\x02\x01n\x05UInt8\x00\x07\x08"},
		{"two blocks", "\x01\x01\x01n\x05UInt8\x07\x01\x01\x01n\x05UInt8\x08",
			info + "\x01\x01\x01n\x05UInt8\x00\x07" + info +
				"\x01\x01\x01n\x05UInt8\x00\x08"},
		{"no rows", "\x02\x00\x01n\x05UInt8\x01l\x16LowCardinality(String)",
			info + "\x02\x00\x01n\x05UInt8\x00\x01l\x16LowCardinality(String)\x00"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := translate([]byte(c.blocks), 54460)
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			same, err := translate([]byte(c.blocks), 0)
			if err != nil || !bytes.Equal(same, []byte(c.blocks)) {
				t.Errorf("revision 0: %q, %v", same, err)
			}
		})
	}
	if _, err := translate([]byte("\x01\x02\x01n\x05UInt8\x07"), 54460); err == nil {
		t.Error("no error for an incomplete block")
	}
}
