package store

import "context"

// HoldSearches takes all turns of an account until the returned function is called.
func (r *Reader) HoldSearches(ctx context.Context, account string) (release func()) {
	var leaves []func()
	for range maxSearches {
		leave, err := r.searches.enter(ctx, account)
		if err != nil {
			panic(err)
		}
		leaves = append(leaves, leave)
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}
