package read

import (
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// instant reads such a column.
func instant(t time.Time) time.Time {
	if t.UnixMilli() == 0 {
		return time.Time{}
	}
	return t.UTC()
}

// address is the inverse of ip16.
func address(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b).Unmap()
}

// eventText is the text of an event's id, empty for none.
func eventText(d id.ID) string {
	if d.IsZero() {
		return ""
	}
	return d.Text(id.Event)
}
