package private

import (
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
)

// checkPeer returns ErrOtherUser unless the process that made the other end of a connection, or that listens there,
// runs as this user or as one of others.
func checkPeer(conn *net.UnixConn, others ...int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if peerErr != nil {
		return fmt.Errorf("ask who is at the other end: %w", peerErr)
	}
	if uid := int(peer.Uid); uid != os.Geteuid() && !slices.Contains(others, uid) {
		return fmt.Errorf("%w (user %d)", ErrOtherUser, uid)
	}
	return nil
}
