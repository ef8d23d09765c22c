//go:build !linux

package private

import "net"

// checkPeer checks nothing on this system: only the modes of the socket and of its directory keep other users out.
func checkPeer(*net.UnixConn, ...int) error { return nil }
