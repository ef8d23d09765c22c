//go:build relay_static

package clickhouse

import "errors"

// load fails: a program without a dynamic linker cannot open the library. The image of a release has this one, which
// runs without glibc.
func load(string) (*binding, error) {
	return nil, errors.New("this build has no embedded ClickHouse: use the program of a release, or the image relay-dev")
}
