//go:build !linux

package private

import "net"

// checkPeer knows nothing of the other end on this system; the mode of the socket and of its directory keep others off.
func checkPeer(*net.UnixConn, ...int) error { return nil }
