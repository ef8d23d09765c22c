package entity

import (
	"context"
	"fmt"
	"time"
)

// Account owns all other entities. There is exactly one.
type Account struct {
	Plain
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// FPSalt has 16 random bytes, which distinguish the fingerprints of this account from those of others. It is created
	// when it is needed for the first time, and is no secret.
	FPSalt []byte `json:"fp_salt,omitempty"`
}

// Common returns the fields.
func (a *Account) Common() CommonFields {
	return CommonFields{ID: &a.ID, CreatedAt: &a.CreatedAt}
}

// Validate validates the account of an import.
func (a *Account) Validate() error {
	if n := len(a.FPSalt); n != 0 && n != FPSaltBytes {
		return fmt.Errorf("fp_salt must have %d bytes, not %d", FPSaltBytes, n)
	}
	return nil
}

func (*Account) EntityKind() Kind { return KindAccount }

// Account returns the account; nil before Ready.
func (c *Core) Account() *Account {
	if e := c.View().Newest(KindAccount); e != nil {
		return c.Decoded(e).(*Account)
	}
	return nil
}

// FPSaltBytes is the length of Account.FPSalt.
const FPSaltBytes = 16

// AccountWithSalt returns the account, and sets its FPSalt if it has none.
func (c *Core) AccountWithSalt(ctx context.Context) (*Account, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	account := c.Account()
	if len(account.FPSalt) > 0 {
		return account, nil
	}
	_, res, err := c.Replace(ctx, KindAccount, account.ID, func(old Value) (Value, error) {
		a := *old.(*Account)
		if len(a.FPSalt) > 0 {
			return nil, nil // another node was first
		}
		a.FPSalt = RandomBytes(FPSaltBytes)
		return &a, nil
	})
	if err != nil {
		return nil, fmt.Errorf("set the salt of the fingerprints: %w", err)
	}
	c.WaitForPeers(ctx, res)
	return c.Decoded(res.Entity).(*Account), nil
}
