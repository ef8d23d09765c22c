package clickhouse

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/eventrelay/relay/pkg/private"
)

// confinedEnv is set in a process that has confined itself.
const confinedEnv = "RELAY_ENGINE_CONFINED"

// ownProc is the process's own directory in procfs. Those of other processes show their environments, with the relay's
// secrets.
const ownProc = "/proc/self"

// Access rights of Landlock (landlock(7)).
const (
	readRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	runRights  = readRights | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// fileRights are the rights that a rule for a file, not a directory, may grant.
	fileRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	allRights = runRights | fileRights | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER
	ownRights = allRights &^ (unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
)

// Confine restricts this process to its own files with Landlock, whatever a statement makes the engine do: besides its
// own directories it reads the system's libraries and little else, and from Linux 6.7 on it cannot connect to TCP
// addresses. The kernel restricts the calling thread and what it starts, but the Go runtime already has other threads.
// So the thread executes the program again, under the same process id, and all of it is restricted. If the kernel
// cannot do it, Confine logs that and returns nil.
func Confine(cfg Config, log *slog.Logger) error {
	if os.Getenv(confinedEnv) != "" {
		return os.Unsetenv(confinedEnv)
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	const minVersion = 3 // allows moving files between directories, and restricts truncating them
	if errno != 0 || version < minVersion {
		log.Warn("the kernel cannot confine the engine to its data directory: it has no Landlock, or one before Linux 6.2")
		return nil
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if _, err := FindLibrary(cfg.Library); err != nil {
		return nil // the start fails with this error anyway
	}
	runtime.LockOSThread() // until exec replaces the program
	if err := restrict(cfg, int(version)); err != nil {
		return fmt.Errorf("confine the engine: %w", err)
	}
	// in a Child's process: the parent-death signal is for this thread, which goes on after exec
	if strings.HasPrefix(cfg.Listen, fdPrefix) {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("set the parent-death signal: %w", err)
		}
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the executable: %w", err)
	}
	err = syscall.Exec(executable, os.Args, append(os.Environ(), confinedEnv+"=1"))
	return fmt.Errorf("run confined: %w", err)
}

func restrict(cfg Config, version int) error {
	rules, err := rulesFor(cfg)
	if err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: allRights}
	const tcpVersion = 4 // the first version that restricts TCP
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if version >= tcpVersion {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Handled_access_net)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make a set of rules: %w", errno)
	}
	for path, rights := range rules {
		if err := allow(set, path, rights); err != nil {
			return fmt.Errorf("allow %s: %w", path, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("restrict this thread: %w", errno)
	}
	return unix.Close(int(set))
}

// rulesFor returns the paths that the engine needs, with its rights there.
func rulesFor(cfg Config) (map[string]uint64, error) {
	library, err := FindLibrary(cfg.Library)
	if err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the executable: %w", err)
	}
	rules := map[string]uint64{
		library: runRights, executable: runRights, cfg.Data: ownRights,
		ownProc: readRights, "/proc/sys": readRights, "/sys/fs/cgroup": readRights, "/sys/devices/system": readRights,
		"/usr/share/zoneinfo": readRights,
		"/dev/null":           readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE,
	}
	for _, path := range []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store"} {
		rules[path] = runRights
	}
	for _, path := range []string{
		"/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version",
		"/dev/zero", "/dev/random", "/dev/urandom", "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime",
		"/etc/timezone",
		"/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
	} {
		rules[path] = readRights
	}
	if err := private.EnsureDir(cfg.Data, lockFile); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if cfg.Backups != "" {
		if err := os.MkdirAll(cfg.Backups, 0o700); err != nil {
			return nil, fmt.Errorf("make backup directory: %w", err)
		}
		rules[cfg.Backups] = ownRights
	}
	if cfg.KeyFile != "" {
		rules[cfg.KeyFile] = readRights
	}
	if path, unix := strings.CutPrefix(cfg.Listen, unixPrefix); unix {
		rules[filepath.Dir(path)] = ownRights
	}
	return rules, nil
}

// allow adds a rule for a path; a path that does not exist needs none.
func allow(set uintptr, path string, rights uint64) error {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if path == ownProc {
		flags = unix.O_PATH // stays open: a rule is for an inode, and procfs creates a new one once the old one is closed
	}
	fd, err := unix.Open(path, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if path != ownProc {
		defer unix.Close(fd)
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
