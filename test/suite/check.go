package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// checkLimit is how long make check tests at most: the packages that have not ended then are left to make test.
const checkLimit = 85 * time.Second

// lint is the command that checks the directories which follow it.
var lint = []string{"go", "tool", "-modfile=tools/go.mod", "golangci-lint", "run", "-c",
	"tools/golangci.yml", "--allow-parallel-runners"}

// bootPackages start whole processes in each test, for minutes: make check leaves them out.
var bootPackages = []string{"test/e2e"}

// engineWaiters have tests that wait for databases, for minutes: make check runs them only after a change of their own
// files, and after all others.
var engineWaiters = []string{"store/read", "store/write", "store/schema"}

// check is a run of the linters and of short tests.
type check struct {
	dir  string
	lint []string
	out  io.Writer
}

// run formats, lints and tests the packages in dir that the changes concern, the nearest first. After the limit it
// names what is left and does not fail.
func (c check) run(ctx context.Context, limit time.Duration, list bool) error {
	start := time.Now()
	files, base, err := changedFiles(ctx, c.dir)
	if err != nil {
		return err
	}
	packages, err := listPackages(ctx, c.dir)
	if err != nil {
		return err
	}
	concerned := selectPackages(packages, files)
	fmt.Fprintf(c.out, "%d files differ from %.12s; they concern %d packages\n", len(files), base, len(concerned))
	if list {
		for _, p := range concerned {
			fmt.Fprintln(c.out, p.distance, p.dir)
		}
		return nil
	}
	if len(concerned) == 0 {
		return nil
	}
	if err := c.format(ctx, files); err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(limit))
	defer cancel()
	left, err := c.lintAndTest(ctx, concerned)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "passed in %v; left to make test: %s\n", time.Since(start).Round(time.Second),
		strings.Join(append(left, "the race detector", "contracts", "JavaScript"), ", "))
	return nil
}

// format fails if gofmt would change one of the files.
func (c check) format(ctx context.Context, files []string) error {
	args := []string{"-l"}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(c.dir, file)); err == nil && strings.HasSuffix(file, ".go") {
			args = append(args, file)
		}
	}
	if len(args) == 1 {
		return nil
	}
	unformatted, err := output(ctx, c.dir, "gofmt", args...)
	if err == nil && len(unformatted) > 0 {
		err = fmt.Errorf("gofmt would change:\n%s", unformatted)
	}
	return err
}

// lintAndTest does both at a time, and returns what did not end before ctx did.
func (c check) lintAndTest(ctx context.Context, concerned []selected) (left []string, err error) {
	var wg sync.WaitGroup
	var lintErr error
	var found bytes.Buffer
	wg.Go(func() {
		args := append(slices.Clone(c.lint), directories(concerned)...)
		lintErr = c.command(ctx, &found, args).Run()
	})
	left, ended, err := c.test(ctx, concerned)
	wg.Wait()
	switch {
	case lintErr != nil && ctx.Err() != nil && ended == 0:
		return nil, errors.New("nothing ended in time; run it again, because what was compiled is kept")
	case lintErr != nil && ctx.Err() != nil:
		left = append(left, "linters")
	case lintErr != nil:
		fmt.Fprintf(c.out, "%s\n", found.Bytes())
		return left, fmt.Errorf("linters: %w", lintErr)
	}
	return left, err
}

// test runs the short tests of the packages. It returns those that are left when ctx ends, and how many are not.
func (c check) test(ctx context.Context, concerned []selected) (left []string, ended int, err error) {
	var now, last []selected
	for _, p := range concerned {
		switch {
		case !p.hasTests():
		case slices.Contains(bootPackages, p.dir), slices.Contains(engineWaiters, p.dir) && p.distance > 0:
			left = append(left, p.dir)
		case slices.Contains(engineWaiters, p.dir):
			last = append(last, p)
		default:
			now = append(now, p)
		}
	}
	if now = append(now, last...); len(now) == 0 {
		return left, 0, nil
	}
	r := newReporter("check", c.out, io.Discard)
	cmd := c.command(ctx, nil, append([]string{"go", "test", "-json", "-short", "-vet=off"}, directories(now)...))
	read, write := io.Pipe()
	cmd.Stdout = write
	var wg sync.WaitGroup
	wg.Go(func() {
		err = cmd.Run()
		_ = write.Close() // never fails
	})
	if err := r.copy(read); err != nil {
		return left, 0, err
	}
	wg.Wait()
	for _, p := range now {
		if !r.ended[p.ImportPath] {
			left = append(left, p.dir)
		}
	}
	if r.failed || err != nil && ctx.Err() == nil {
		return left, len(r.ended), errors.New("tests failed")
	}
	return left, len(r.ended), nil
}

// command is a process group of its own that ends with ctx. Its output goes to out.
func (c check) command(ctx context.Context, out io.Writer, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for processes that left the group
	return cmd
}

func directories(packages []selected) (dirs []string) {
	for _, p := range packages {
		dirs = append(dirs, "./"+p.dir)
	}
	return dirs
}
