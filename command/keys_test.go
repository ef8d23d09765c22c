package command

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/node/admin"
)

// relay keys list marks keys that a web page has sent, whatever it knows of their last use, and no others.
func TestKeysOfWebPagesAreMarkedInTheList(t *testing.T) {
	for _, k := range []admin.Key{
		{}, {LastUseUnknown: true}, {LastUse: &admin.KeyUse{At: time.Now(), RemoteIP: "192.0.2.1"}},
	} {
		const mark = "sent by a web page"
		if text := lastUse(&k); strings.Contains(text, mark) {
			t.Errorf("no web page has sent the key: %s", text)
		}
		k.UsedFromBrowser = true
		if text := lastUse(&k); !strings.Contains(text, mark) {
			t.Errorf("a web page has sent the key: %s", text)
		}
	}
}
