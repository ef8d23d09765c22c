package imports

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// state has the answers of a system, so that an import that was interrupted goes on where it was. It is a file with a
// line of JSON for each answer, which is an export too. An export may also be a directory: the answer at a path is in
// the file <path>.json, its further pages in <path>.2.json and so on.
type state struct {
	file    *os.File // nil: an export, which stays as it is
	dir     fs.FS    // nil: no directory
	answers map[place]json.RawMessage
	bytes   int
	resumed int // answers of an earlier run
}

type place struct {
	path string
	page int
}

// line is one of the file. The first one says what the file is of, each other one has an answer, or that there is none.
type line struct {
	System string          `json:"system,omitempty"`
	URL    string          `json:"url,omitempty"`
	Begun  *time.Time      `json:"begun,omitempty"`
	Path   string          `json:"path,omitempty"`
	Page   int             `json:"page,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

// openState opens the state of an import, or begins one.
func openState(name, system, url string, now time.Time) (*state, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s := &state{file: file, answers: map[place]json.RawMessage{}}
	head, end, err := s.load(file)
	switch {
	case err != nil:
	case head.System == "": // a new one, or one that ended before its first line
		_, err = file.Seek(0, io.SeekStart)
		err = errors.Join(err, file.Truncate(0), s.write(line{System: system, URL: url, Begun: &now}))
	case head.System != system || head.URL != url:
		err = fmt.Errorf("it has answers of %s at %s: remove it, or name another one with --state", head.System, head.URL)
	default:
		_, err = file.Seek(end, io.SeekStart)
		err = errors.Join(err, file.Truncate(end))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	s.resumed = len(s.answers)
	return s, nil
}

// openExport opens the answers of a system in a file or a directory.
func openExport(name, system string) (*state, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &state{dir: os.DirFS(name)}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &state{answers: map[place]json.RawMessage{}}
	head, _, err := s.load(file)
	if err == nil && head.System != "" && head.System != system {
		err = fmt.Errorf("it has answers of %s", head.System)
	}
	if err == nil && len(s.answers) == 0 {
		err = errors.New(`it has no answers: each is a line {"path":"/…","page":1,"answer":…}`)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// load reads all complete lines and returns where the last of them ends: a crash may have cut off the one behind.
func (s *state) load(from io.Reader) (head line, end int64, err error) {
	lines := bufio.NewReader(from)
	for {
		raw, err := lines.ReadBytes('\n')
		ended := errors.Is(err, io.EOF)
		if ended && !json.Valid(raw) {
			return head, end, nil
		}
		var l line
		if err == nil || ended {
			err = json.Unmarshal(raw, &l)
		}
		if err != nil {
			return head, end, fmt.Errorf("byte %d: not a line of JSON: %w", end, err)
		}
		if !ended {
			end += int64(len(raw))
		}
		if l.System != "" {
			head = l
		} else if err := s.keep(l.Path, max(l.Page, 1), l.Answer); err != nil {
			return head, end, err
		}
		if ended {
			return head, end, nil
		}
	}
}

func (s *state) keep(path string, page int, raw json.RawMessage) error {
	if s.bytes += len(raw); s.bytes > maxAnswers {
		return fmt.Errorf("the answers have more than %d bytes", maxAnswers)
	}
	s.answers[place{path, page}] = raw
	return nil
}

// find returns an answer, empty for what is not there; found is false if it has to be asked for.
func (s *state) find(at string, page int) (raw json.RawMessage, found bool, err error) {
	if s.dir == nil {
		raw, found = s.answers[place{at, page}]
		return raw, found, nil
	}
	name := strings.TrimPrefix(path.Clean(at), "/")
	if page > 1 {
		name = fmt.Sprintf("%s.%d", name, page)
	}
	file, err := s.dir.Open(name + ".json")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			err = nil
		}
		return nil, true, err
	}
	defer file.Close()
	raw, err = io.ReadAll(io.LimitReader(file, maxAnswer+1))
	if s.bytes += len(raw); len(raw) > maxAnswer || s.bytes > maxAnswers {
		err = fmt.Errorf("%s.json: an answer may have %d bytes, and all together %d", name, maxAnswer, maxAnswers)
	}
	return raw, true, err
}

// add keeps an answer, also for the next run.
func (s *state) add(path string, page int, raw json.RawMessage) error {
	if err := s.keep(path, page, raw); err != nil {
		return err
	}
	return s.write(line{Path: path, Page: page, Answer: raw})
}

func (s *state) write(l line) error {
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = s.file.Write(append(raw, '\n'))
	}
	return err
}

// close closes the file, and removes it when its answers are in the result.
func (s *state) close(remove bool) error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if remove {
		err = errors.Join(err, os.Remove(s.file.Name()))
	}
	return err
}
