package listen

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/eventrelay/relay/features/listen/noquery"
)

var _ = noquery.Restore() // Bubble Tea is initialized

// maxRows is how many copies the screen keeps, with their events.
const maxRows = 200

// screen is the terminal view: the newest copies, and keys to send one again or to choose types.
type screen struct {
	title, status, warning string
	rows                   []Copy // oldest first
	chosen                 int    // counted from the newest
	height, width          int
	filter                 string
	typing                 bool
	counts                 counts
	again                  func(Copy)
	choose                 func(types []string)
}

// messages of the listener.
type (
	statusText  string
	warningText string
	copied      Copy
)

// program passes what the listener says to the screen.
type program struct{ *tea.Program }

func (p program) Status(text string) { p.Send(statusText(text)) }
func (p program) Warn(text string)   { p.Send(warningText(text)) }
func (p program) Copied(c Copy)      { p.Send(copied(c)) }

// RunOnScreen copies events and shows them until a person ends it.
func (l *Listener) RunOnScreen(ctx context.Context, in io.Reader, out io.Writer, title, types string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	var view program
	s := &screen{title: title, filter: types, choose: l.SetTypes}
	s.again = func(c Copy) { work.Go(func() { l.Repeat(ctx, c) }) }
	view.Program = tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(),
		tea.WithoutSignalHandler())
	var failed error
	work.Go(func() {
		failed = l.Run(ctx, view)
		view.Quit()
	})
	_, err := view.Run()
	stopped := ctx.Err() != nil
	cancel()
	work.Wait()
	fmt.Fprintln(out, "Copies: "+s.counts.String())
	if failed != nil || stopped {
		return failed
	}
	return err
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s *screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case statusText:
		s.status = string(m)
	case warningText:
		s.warning = string(m)
	case copied:
		s.counts.add(Copy(m))
		if s.rows = append(s.rows, Copy(m)); len(s.rows) > maxRows {
			s.rows = s.rows[1:]
		}
		if s.chosen > 0 { // stays on its copy
			s.chosen = min(s.chosen+1, len(s.rows)-1)
		}
	case tea.KeyMsg:
		if m.String() == "ctrl+c" {
			return s, tea.Quit
		}
		if s.typing {
			s.typed(m)
			return s, nil
		}
		return s, s.pressed(m.String())
	}
	return s, nil
}

func (s *screen) pressed(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "up", "k":
		s.chosen = max(min(s.chosen+1, len(s.rows)-1), 0)
	case "down", "j":
		s.chosen = max(s.chosen-1, 0)
	case "r", "enter":
		if n := len(s.rows); n > 0 {
			s.again(s.rows[n-1-s.chosen])
		}
	case "f":
		s.typing = true
	}
	return nil
}

// typed changes the types that are copied.
func (s *screen) typed(key tea.KeyMsg) {
	switch key.Type {
	case tea.KeyEnter, tea.KeyEsc:
		s.typing = false
		s.choose(TypesOf(s.filter))
	case tea.KeyBackspace:
		if r := []rune(s.filter); len(r) > 0 {
			s.filter = string(r[:len(r)-1])
		}
	case tea.KeyRunes, tea.KeySpace:
		s.filter += printable(string(key.Runes))
	}
}

// TypesOf are the types in a text, with commas or spaces between them.
func TypesOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// View implements tea.Model.
func (s *screen) View() string {
	var b strings.Builder
	line := func(text string) {
		if r := []rune(text); s.width > 0 && len(r) > s.width {
			text = string(r[:s.width-1]) + "…"
		}
		b.WriteString(text + "\n")
	}
	line(printable(s.title))
	line(printable(s.status))
	if s.warning != "" {
		line("warning: " + printable(s.warning))
	}
	filter := s.filter
	switch {
	case s.typing:
		filter += "▏  Enter ends; empty: all"
	case filter == "":
		filter = "all"
	}
	line("types: " + filter)
	line("")
	room := max(s.height-strings.Count(b.String(), "\n")-3, 1)
	end := max(len(s.rows)-max(s.chosen-room+1, 0), 0)
	for i := max(end-room, 0); i < end; i++ {
		mark := "  "
		if i == len(s.rows)-1-s.chosen {
			mark = "> "
		}
		line(mark + s.rows[i].line())
	}
	for range room - min(end, room) {
		line("")
	}
	line("")
	line(s.counts.String())
	b.WriteString("↑↓ choose  r send again  f types  q quit")
	return b.String()
}

// line is a copy as one line of text.
func (c Copy) line() string {
	status := "failed"
	if c.Status != 0 {
		status = fmt.Sprint(c.Status)
	}
	text := fmt.Sprintf("%s  %-6s %d ms  %s %s", c.At.Format("15:04:05"), status, c.Took.Milliseconds(), c.Event.Method,
		c.Event.ID)
	if c.Event.Type != nil {
		text += "  " + *c.Event.Type
	}
	if c.Again {
		text += "  sent again"
	}
	if c.Fault != "" {
		text += "  " + c.Fault
	}
	return printable(text)
}

func (c Copy) ok() bool { return c.Status >= 200 && c.Status < 300 }

// counts of copies by what became of them.
type counts struct{ ok, other, failed int }

func (n *counts) add(c Copy) {
	switch {
	case c.ok():
		n.ok++
	case c.Status != 0:
		n.other++
	default:
		n.failed++
	}
}

func (n *counts) String() string {
	return fmt.Sprintf("%d answered with 2xx, %d with another status, %d without an answer", n.ok, n.other, n.failed)
}

// printable removes what could move the cursor or break the line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

// Plain shows each copy as a line, for pipes and logs.
type Plain struct {
	Out, Err io.Writer
	counts
}

// Status implements View.
func (p *Plain) Status(text string) { fmt.Fprintln(p.Err, printable(text)) }

// Warn implements View.
func (p *Plain) Warn(text string) { fmt.Fprintln(p.Err, "warning: "+printable(text)) }

// Copied implements View.
func (p *Plain) Copied(c Copy) {
	p.add(c)
	fmt.Fprintln(p.Out, c.line())
}

// Summary counts the copies.
func (p *Plain) Summary() string { return "Copies: " + p.String() }
