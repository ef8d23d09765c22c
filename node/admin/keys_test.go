package admin

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
)

type registry = Keys // embedded under a name that is not that of its method

// listedKeys are API keys whose last uses are unknown.
type listedKeys struct {
	registry
	all []*config.Key
}

func (k listedKeys) Account() *entity.Account  { return &entity.Account{} }
func (k listedKeys) Keys(string) []*config.Key { return k.all }
func (k listedKeys) IsSet(x *config.Key) bool  { return !x.Bootstrap }
func (k listedKeys) KeyUses(context.Context, string, []string) (map[string]audit.Use, error) {
	return nil, errors.New("the store is unavailable")
}

// A bootstrap key of another installation's settings, which an import has brought, is not listed as one that works.
func TestListedKeysSayWhetherTheyAreSet(t *testing.T) {
	keys := listedKeys{all: []*config.Key{{ID: "key_1"}, {ID: "key_2", Bootstrap: true}}}
	h := serve(t, func(d *Deps) { d.Keys, d.Uses = keys, keys })
	_, answer := request(h, "GET", "/keys", "")
	var got []Key
	if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got) != 2 || got[0].NotSet || !got[1].NotSet {
		t.Errorf("%v: the keys are %s", err, answer)
	}
}

// The list says of each key whether a web page has sent it, also while the store is unavailable.
func TestListedKeysSayWhetherAWebPageHasSentThem(t *testing.T) {
	keys := listedKeys{all: []*config.Key{{ID: "key_1"}, {ID: "key_2", UsedFromBrowser: true}}}
	h := serve(t, func(d *Deps) { d.Keys, d.Uses = keys, keys })
	status, answer := request(h, "GET", "/keys", "")
	var got []Key
	if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil || len(got) != 2 {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	if got[0].UsedFromBrowser || !got[1].UsedFromBrowser || !got[1].LastUseUnknown {
		t.Errorf("the keys are %s", answer)
	}
}
