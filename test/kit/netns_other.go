//go:build !linux

package kit

import "errors"

// inNamespace needs Linux. NewNetwork skips the test before anything calls it.
func (h *Host) inNamespace(func() error) error {
	return errors.New("network namespaces need Linux")
}
