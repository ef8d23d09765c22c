package private

import (
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
)

// checkPeer returns an error that wraps ErrOtherUser unless the process at the other end of a connection runs as this
// user or as one of the users others. It uses SO_PEERCRED: the user at the time of connect(2) or listen(2) (unix(7)).
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
		return fmt.Errorf("read the user at the other end of the socket: %w", peerErr)
	}
	if uid := int(peer.Uid); uid != os.Geteuid() && !slices.Contains(others, uid) {
		return fmt.Errorf("%w (user %d)", ErrOtherUser, uid)
	}
	return nil
}
