package command

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/test/is"
)

// relay keys list marks keys that a web page has sent, whatever it knows of their last use, and no others.
func TestKeysOfWebPagesAreMarkedInTheList(t *testing.T) {
	for _, k := range []admin.Key{
		{}, {LastUseUnknown: true}, {LastUse: &admin.KeyUse{At: time.Now(), RemoteIP: "192.0.2.1"}},
	} {
		const mark = "sent by a web page"
		is.Lacks(t, lastUse(&k), mark, "no web page has sent the key")
		k.UsedFromBrowser = true
		is.Has(t, lastUse(&k), mark, "a web page has sent the key")
	}
}
