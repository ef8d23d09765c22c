package backup

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// spare are the bytes that a backup or restore leaves free on a disk: a node that runs there takes events meanwhile.
const spare = 128 << 20

// CheckRoom returns an error if the disk of a directory has too little space for so many bytes.
func CheckRoom(dir string, need int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	free := int64(fs.Bavail) * int64(fs.Bsize) // the types differ between systems
	if free-spare >= need {
		return nil
	}
	return fmt.Errorf("the disk of %s has %.1f MB free; this needs %.1f MB, and %d MB that stay free", dir,
		float64(free)/1e6, float64(need)/1e6, spare/1_000_000)
}

// CheckCopyRoom returns an error if the disk of a directory has too little space for a copy of another directory. Files
// that are replaced meanwhile may count twice.
func CheckCopyRoom(dir, of string) error {
	var need int64
	err := walk("", of, func(_, _ string, size int64) error {
		need += size
		return nil
	})
	if err != nil {
		return err
	}
	return CheckRoom(dir, need)
}

// CheckRoom returns an error if the disk of the backup has too little space for files and directories, by their paths
// in the backup. A file that the previous backup has in the same size becomes a link; only the claims may change and
// keep their size.
func (w *Writer) CheckRoom(from map[string]string) error {
	var need int64
	for path, name := range from {
		err := walk(path, name, func(path, _ string, size int64) error {
			if had, ok := w.shared[filepath.ToSlash(path)]; !ok || had != size || path == Claims {
				need += size
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return CheckRoom(w.dir, need)
}
