package config

import (
	"context"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	leaks "github.com/eventrelay/relay/pkg/secrets"
)

// Settings are what an account has set beside its alerts. There is one per account, with the account's id.
type Settings struct {
	entity.Meta
	Detection Detection `json:"detection"`
	Catalogue Catalogue `json:"catalogue,omitzero"`
}

// Catalogue says who may see the catalogue of event types.
type Catalogue struct {
	Public bool   `json:"public,omitempty"` // everybody may, but for internal types
	Title  string `json:"title,omitempty"`
}

// Detection is what an account looks for in log lines and stored events beside the built-in rules.
type Detection struct {
	Rules []leaks.Custom `json:"rules,omitempty"`
	// Version counts the changes; 0 = there was none.
	Version   int       `json:"version"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	UpdatedBy string    `json:"updated_by,omitempty"` // key_… or usr_…
}

// Rule returns the account's rule with that id; nil if there is none.
func (d *Detection) Rule(id string) *leaks.Custom {
	for i := range d.Rules {
		if d.Rules[i].ID == id {
			return &d.Rules[i]
		}
	}
	return nil
}

// Settings returns the settings of the account, or those of a new one. Call it after Ready.
func (c endpoints) Settings() *Settings {
	a := c.Account()
	if s, presence := entity.Get[Settings](c, a.ID); presence == entity.Present {
		return s
	}
	return &Settings{Meta: entity.Meta{ID: a.ID, Account: a.ID, CreatedAt: a.CreatedAt, UpdatedAt: a.CreatedAt}}
}

// CustomRules returns the account's own rules, and the revision that changes with them. Before the account exists there
// is none.
func (c endpoints) CustomRules() (rules []leaks.Custom, revision int64) {
	if c.Account() == nil {
		return nil, 0
	}
	s := c.Settings()
	return s.Detection.Rules, s.Rev
}

// UpdateDetection changes what the account looks for. alter gets a copy that it may modify; version and time are set
// here. When another writer wins, alter is called again with a newer copy. Its error is returned unchanged.
func (c endpoints) UpdateDetection(ctx context.Context, alter func(*Detection) error) (*Settings, error) {
	return c.updateSettings(ctx, func(s *Settings) error {
		was, err := entity.CopyOf(c.Core, s)
		if err != nil {
			return err
		}
		if err := alter(&s.Detection); err != nil {
			return err
		}
		s.Detection.Version = was.Detection.Version
		if s.Rev == 0 || !entity.SameJSON(&was.Detection, &s.Detection) {
			s.Detection.Version++
			s.Detection.UpdatedAt = c.Clock().UTC()
		}
		return nil
	})
}

// UpdateCatalogue changes who may see the catalogue.
func (c endpoints) UpdateCatalogue(ctx context.Context, alter func(*Catalogue) error) (*Settings, error) {
	return c.updateSettings(ctx, func(s *Settings) error { return alter(&s.Catalogue) })
}

func (c endpoints) updateSettings(ctx context.Context, alter func(*Settings) error) (*Settings, error) {
	first := func() *Settings { s := *c.Settings(); return &s }
	s, w, err := entity.UpdateOrCreate(ctx, c.Core, first, alter)
	return entity.Awaited(ctx, c.Core, s, w, err)
}

func (s *Settings) Validate() error {
	return errors.Join(require.Range("detection.version", s.Detection.Version, 0, 1<<53),
		require.Text("catalogue.title", s.Catalogue.Title, 0, 100), leaks.ValidateCustom(s.Detection.Rules))
}
