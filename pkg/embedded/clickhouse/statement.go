package clickhouse

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What a statement may name. The engine's grants keep it from files and the network (see child.go), but a few things
// are not subject to grants: the scalar function file, INTO OUTFILE and FROM INFILE, disks that a statement defines
// itself, BACKUP to an object store, and strings that the engine parses as SQL, such as the columns of
// generateRandom('a String ALIAS file(…)'). So a statement is refused unless everything it names is on a closed list.

// verbs are the allowed first words of statements.
var verbs = []string{
	"alter", "check", "create", "delete", "desc", "describe", "drop", "exchange", "exists", "explain", "insert", "kill",
	"optimize", "rename", "select", "set", "show", "system", "truncate", "use", "with",
}

// tableFunctions are the allowed table functions: they read only tables of this engine, or nothing, and take no SQL as
// a string.
var tableFunctions = []string{
	"generate_series", "generateseries", "merge", "numbers", "numbers_mt", "view", "zeros", "zeros_mt"}

// tableEngines are the allowed table engines; the grants list them too.
var tableEngines = []string{
	"AggregatingMergeTree", "CoalescingMergeTree", "CollapsingMergeTree", "Log", "MaterializedView", "Memory",
	"MergeTree", "Null",
	"ReplacingMergeTree", "SummingMergeTree", "TinyLog", "VersionedCollapsingMergeTree", "View",
}

func knownEngine(name string) bool {
	same := func(known string) bool { return strings.EqualFold(known, name) }
	return slices.ContainsFunc(tableEngines, same) || same("Atomic") // a database engine
}

// forbiddenWords are words that no statement may contain, quoted or not. A function can be called without a bracket
// after it, as in arrayMap(file, …); PARALLEL WITH joins statements, of which only the first verb would be checked;
// formatRow writes formats that take a file or an address from settings; reading system.models starts another program.
var forbiddenWords = slices.Concat(constSettings, []string{
	"file", "formatrow", "formatrownonewline", "hascolumnintable", "infile", "models", "outfile", "parallel",
})

// forbiddenPrefixes are prefixes of functions that read a file, ask a server or read a dictionary.
var forbiddenPrefixes = []string{
	"addressto", "aiclassify", "aiembed", "aiextract", "aigenerate", "aitranslate", "catboost", "dictget", "dicthas",
	"dictisin",
	"joinget", "naivebayes",
}

// dataTypes are the allowed types of parameters, as in {x:Array(String)}. A parameter of the type Identifier would be
// part of the statement itself.
var dataTypes = []string{
	"array", "bool", "date", "date32", "datetime", "datetime64", "decimal", "decimal32", "decimal64", "decimal128",
	"decimal256",
	"enum8", "enum16", "fixedstring", "float32", "float64", "int8", "int16", "int32", "int64", "int128", "int256",
	"ipv4", "ipv6",
	"lowcardinality", "map", "nullable", "string", "tuple", "uint8", "uint16", "uint32", "uint64", "uint128",
	"uint256", "uuid",
}

// verbsWithoutEngine are verbs that create no table, so that ENGINE after them is a column name.
var verbsWithoutEngine = []string{
	"check", "delete", "desc", "describe", "exists", "explain", "insert", "kill", "select", "set", "show", "use", "with",
}

// forbiddenFunctions are functions besides table functions that define where data is.
var forbiddenFunctions = []string{"disk", "s3", "azureblobstorage"}

// policy decides which statements may run.
type policy struct {
	// refused holds the names of all table functions that are not in tableFunctions, in lower case.
	refused map[string]bool
	// backups allows BACKUP and RESTORE; the engine itself restricts them to the operator's disk and path.
	backups bool
}

func newPolicy(functions []string, backups bool) policy {
	p := policy{refused: make(map[string]bool), backups: backups}
	for _, name := range slices.Concat(functions, forbiddenFunctions) {
		if name = strings.ToLower(name); !slices.Contains(tableFunctions, name) {
			p.refused[name] = true
		}
	}
	return p
}

// check returns an exception if the statement names something that is not allowed.
func (p policy) check(statement string) error {
	c := checker{policy: p, scanner: scanner{rest: statement}}
	c.advance()
	for c.current.kind == symbolToken && c.current.text == "(" {
		c.advance()
	}
	c.verb = strings.ToLower(c.current.text)
	switch {
	case c.current.kind == endToken:
		return c.err
	case c.current.kind != wordToken, !slices.Contains(verbs, c.verb) && !c.isBackup():
		return denied("statements that begin with %s", c.current.text)
	}
	for ; c.current.kind != endToken; c.advance() {
		if err := c.checkToken(); err != nil {
			return err
		}
	}
	return c.err
}

// checker reads a statement with one token of look-ahead.
type checker struct {
	policy
	scanner                scanner
	verb                   string
	earlier, previous      token // the two tokens before current
	current                token
	next                   token
	started                bool
	err                    error // of the scanner; no tokens follow it
	seenSelect, seenValues bool  // SELECT and VALUES have been seen
}

func (c *checker) advance() {
	if !c.started {
		c.started = true
		c.next = c.scan()
	}
	c.earlier, c.previous, c.current = c.previous, c.current, c.next
	c.next = c.scan()
}

func (c *checker) scan() token {
	if c.err != nil {
		return token{kind: endToken}
	}
	var t token
	t, c.err = c.scanner.next()
	return t
}

func (c *checker) isBackup() bool { return c.backups && (c.verb == "backup" || c.verb == "restore") }

// checkToken checks the current token.
func (c *checker) checkToken() error {
	t := c.current
	if t.kind == symbolToken && t.text == ";" && c.next.kind != endToken {
		return newException(codeSyntaxError, "SYNTAX_ERROR", "Multi-statements are not allowed")
	}
	if t.kind == symbolToken && t.text == "{" {
		return c.checkParameter()
	}
	if t.kind != wordToken && t.kind != nameToken {
		return nil
	}
	lower := strings.ToLower(t.text)
	called := c.next.kind == symbolToken && c.next.text == "("
	switch {
	case c.namesBackup(lower, called):
	case c.isBackup() && lower == "async" && t.kind == wordToken: // whether it failed would not be known; see failures
		return denied("backups in the background (ASYNC)")
	case slices.Contains(forbiddenWords, lower),
		slices.ContainsFunc(forbiddenPrefixes, func(s string) bool { return strings.HasPrefix(lower, s) }):
		return denied("%s", t.text)
	case t.kind == nameToken && strings.Contains(t.text, "/"): // EXISTS TABLE "/path" would tell whether a file exists
		return denied("names with a slash")
	case lower == "values" && called:
		// VALUES of an insert, not the table function values, whose first argument may hold SQL as a string.
		if c.verb != "insert" || c.seenSelect || c.seenValues || t.kind != wordToken {
			return denied("the table function values")
		}
		c.seenValues = true
	case called && c.refused[lower]:
		return denied("the function %s", t.text)
	case (lower == "disk" || lower == "storage_policy") && c.next.text == "=":
		// A table or database on the disk of the backups would keep the engine from starting without that disk.
		return denied("the setting %s", t.text)
	case t.kind == wordToken && (lower == "select" || lower == "from"):
		c.seenSelect = true
	case t.kind == wordToken && lower == "engine" && !slices.Contains(verbsWithoutEngine, c.verb):
		return c.checkEngine()
	}
	return nil
}

// namesBackup reports whether Disk(…) or File(…) is the location of a backup: BACKUP … TO Disk('backups', '…'),
// RESTORE … FROM Disk('backups', '…'), and base_backup = Disk('backups', '…').
func (c *checker) namesBackup(lower string, called bool) bool {
	before := strings.ToLower(c.previous.text)
	return c.isBackup() && (lower == "disk" || lower == "file") && called &&
		(before == "to" || before == "from" || before == "=" && strings.EqualFold(c.earlier.text, "base_backup"))
}

// checkEngine checks the engine of a table or database, with or without an equals sign before its name.
func (c *checker) checkEngine() error {
	if c.next.kind == symbolToken && c.next.text == "=" {
		c.advance()
	}
	if c.next.kind != wordToken && c.next.kind != nameToken {
		return nil // a column of this name
	}
	if !knownEngine(c.next.text) {
		return denied("the engine %s", c.next.text)
	}
	return nil
}

// checkParameter checks what is in braces: a parameter, or a literal map.
func (c *checker) checkParameter() error {
	if c.next.kind == literalToken || c.next.kind == symbolToken && c.next.text == "}" {
		return nil
	}
	c.advance()
	if c.current.kind != wordToken || c.next.kind != symbolToken || c.next.text != ":" {
		return denied("braces around anything but a parameter, as in {x:String}")
	}
	for c.advance(); c.next.kind != endToken && (c.next.kind != symbolToken || c.next.text != "}"); c.advance() {
		known := slices.Contains(dataTypes, strings.ToLower(c.next.text)) || number.MatchString(c.next.text)
		if c.next.kind == nameToken || c.next.kind == wordToken && !known || c.next.kind == symbolToken &&
			!strings.Contains("(),=-", c.next.text) {
			return denied("a parameter of the type %s: a parameter may hold only data, write names into the statement",
				c.next.text)
		}
	}
	return nil
}

func denied(format string, args ...any) error {
	return newException(codeAccessDenied, "ACCESS_DENIED",
		"This engine serves the relay's own tables and refuses %s. "+
			"Read files and other servers with a program of your own, and insert the rows through this engine",
		fmt.Sprintf(format, args...))
}

// splitInsert separates an insert from rows in its text, as in INSERT INTO t FORMAT CSV\n1,2\n. The engine gets them
// apart: it would look for another statement after the rows.
func splitInsert(statement string) (insert, format, rows string, ok bool) {
	s := scanner{rest: statement}
	for before := (token{}); ; {
		t, err := s.next()
		if err != nil || t.kind == endToken || t.kind == wordToken && strings.EqualFold(t.text, "SELECT") {
			return "", "", "", false
		}
		if before.kind == wordToken && strings.EqualFold(before.text, "FORMAT") && t.kind == wordToken {
			cut := len(statement) - len(s.rest) - len(t.text)
			insert = strings.TrimRight(statement[:cut], " \t\r\n")
			rows = strings.TrimLeft(s.rest, " \t\r")
			return insert[:len(insert)-len("FORMAT")], t.text, strings.TrimPrefix(rows, "\n"), true
		}
		before = t
	}
}

// scanner splits a statement into tokens as ClickHouse's lexer does (Lexer.cpp). Where the two could differ it refuses
// the statement: what this scanner reads as a string must be one for the engine too.
type scanner struct{ rest string }

type kind uint8

const (
	endToken     kind = iota
	wordToken         // a bare word or a number
	nameToken         // a quoted identifier, without its quotes
	literalToken      // a string, without its content
	symbolToken
)

type token struct {
	kind kind
	text string
}

// next returns the next token after white space. Comments are refused: ClickHouse's nest and those of other dialects do
// not, and the relay sends none.
func (s *scanner) next() (token, error) {
	s.rest = strings.TrimLeft(s.rest, " \t\r\n\f\v")
	if s.rest == "" {
		return token{kind: endToken}, nil
	}
	for _, mark := range []string{"--", "/*", "//", "#"} {
		if strings.HasPrefix(s.rest, mark) {
			return token{}, newException(
				codeSyntaxError, "SYNTAX_ERROR", "Comments are refused: send the statement without %s", mark)
		}
	}
	switch c := s.rest[0]; {
	case isWordByte(c):
		n := 1
		for n < len(s.rest) && isWordByte(s.rest[n]) {
			n++
		}
		t := token{kind: wordToken, text: s.rest[:n]}
		if c >= '0' && c <= '9' && !number.MatchString(t.text) {
			// after a dot, Lexer.cpp ends the number before the letters
			return token{}, unreadable("letters directly after a number: " + t.text)
		}
		s.rest = s.rest[n:]
		if s.rest != "" && s.rest[0] == '\'' {
			return token{}, unreadable("a string directly after " + t.text) // x'…' and b'…' have no escapes
		}
		return t, nil
	case c == '\'':
		_, err := s.quoted(c)
		return token{kind: literalToken}, err
	case c == '"' || c == '`':
		text, err := s.quoted(c)
		if err == nil && strings.Contains(text, `\`) {
			err = unreadable("a backslash in a quoted name")
		}
		return token{kind: nameToken, text: text}, err
	case c < ' ' || c > '~' || c == '$' || c == '\\':
		return token{}, unreadable("the character " + strings.ToValidUTF8(string(rune(c)), "?"))
	}
	t := token{kind: symbolToken, text: s.rest[:1]}
	s.rest = s.rest[1:]
	return t, nil
}

// number matches a number without sign and dot; a trailing e may be that of 1e-5.
var number = regexp.MustCompile(`^(0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9_]+([eE][0-9_]*)?)$`)

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quoted reads a string or a quoted name and returns the text between the quotes. A quote inside is doubled or escaped
// with a backslash.
func (s *scanner) quoted(quote byte) (string, error) {
	special := string(quote) + `\`
	for at := 1; ; {
		i := strings.IndexAny(s.rest[at:], special)
		if i < 0 {
			return "", unreadable("a string without an end")
		}
		at += i
		switch {
		case s.rest[at] == '\\':
			if at += 2; at > len(s.rest) {
				return "", unreadable("a string without an end")
			}
		case at+1 < len(s.rest) && s.rest[at+1] == quote:
			if quote != '\'' {
				return "", unreadable("a doubled quote in a quoted name")
			}
			at += 2
		default:
			text := s.rest[1:at]
			s.rest = s.rest[at+1:]
			return text, nil
		}
	}
}

func unreadable(what string) error {
	return newException(codeSyntaxError, "SYNTAX_ERROR", "Cannot read the statement safely: it has %s; "+
		"pass strings as parameters", what)
}
