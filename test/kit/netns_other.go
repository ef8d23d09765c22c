//go:build !linux

package kit

import "errors"

// enter needs Linux; NewNetwork leaves the test out before it comes to that.
func (h *Host) enter(func() error) error {
	return errors.New("network namespaces need Linux")
}
