package event

import "strings"

// Lines are header lines as one text, "Name: value\n" each. They are recorded, stored and searched in this form; only
// the API splits them.
type Lines string

// LinesOf writes fields as lines. A line break in a value, which HTTP does not allow, becomes a space (RFC 9110, 5.5).
func LinesOf(fields []Field) Lines {
	size := 0
	for _, f := range fields {
		size += len(f.Name) + len(": \n") + len(f.Value)
	}
	var b strings.Builder
	b.Grow(size)
	for _, f := range fields {
		b.WriteString(f.Name)
		b.WriteString(": ")
		if strings.IndexByte(f.Value, '\n') < 0 && strings.IndexByte(f.Value, '\r') < 0 {
			b.WriteString(f.Value)
		} else {
			b.WriteString(strings.NewReplacer("\r", " ", "\n", " ").Replace(f.Value))
		}
		b.WriteByte('\n')
	}
	return Lines(b.String())
}

// Value returns the value of the first line with that name, spelled as here; empty without one.
func (l Lines) Value(name string) string {
	text := "\n" + string(l)
	if _, rest, ok := strings.Cut(text, "\n"+name+": "); ok {
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	return ""
}

// Fields splits the lines into names and values.
func (l Lines) Fields() []Field {
	fields := make([]Field, 0, strings.Count(string(l), "\n"))
	for line := range strings.SplitSeq(strings.TrimSuffix(string(l), "\n"), "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			fields = append(fields, Field{name, value})
		}
	}
	return fields
}
