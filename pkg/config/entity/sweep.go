package entity

import "context"

// maxSwept is the maximum number of entities of a kind that one pass removes, with one record each.
const maxSwept = 2000

// SweepExpired removes what has expired.
func (c *Core) SweepExpired(ctx context.Context) error {
	for k := range NumKinds {
		if !c.Table.Has(k, Expires|ExpiresInAnyOrder) {
			continue
		}
		if err := c.sweepKind(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// sweepKind removes the expired entities of a kind, at most maxSwept: the oldest up to the first that has not expired,
// if they expire in the order of their creation.
func (c *Core) sweepKind(ctx context.Context, k Kind) error {
	swept := 0
	for e := range c.View().OldestFirst(k) {
		if !c.hasEnded(c.Decoded(e)) {
			if c.Table.Has(k, ExpiresInAnyOrder) {
				continue
			}
			return nil
		}
		if swept == maxSwept {
			return nil
		}
		if err := c.ForgetIfUnchanged(ctx, k, e.ID, e.Rev); err != nil {
			return err
		}
		swept++
	}
	return nil
}
