package clickhouse

import (
	"fmt"
	"slices"
	"strings"
)

// What a statement may name. The engine's grants keep it from files and from the network (see grants.go), but a few
// things are not subject to grants: the scalar function file, INTO OUTFILE and FROM INFILE, disks that a statement
// defines itself, BACKUP to an object store, and texts that the engine reads as SQL, such as the columns of
// generateRandom('a String ALIAS file(…)'). So a statement is refused unless all it names is on a closed list.

// verbs are the first words of statements.
var verbs = []string{
	"alter", "check", "create", "delete", "desc", "describe", "drop", "exchange", "exists", "explain", "insert", "kill",
	"optimize", "rename", "select", "set", "show", "system", "truncate", "use", "with",
}

// tableFunctions are those that read nothing but tables of this engine, or nothing at all, and take no SQL as text.
var tableFunctions = []string{
	"generate_series", "generateseries", "merge", "numbers", "numbers_mt", "view", "zeros", "zeros_mt"}

// tableEngines are those of tables; the grants name them too.
var tableEngines = []string{
	"AggregatingMergeTree", "CoalescingMergeTree", "CollapsingMergeTree", "Log", "MaterializedView", "Memory",
	"MergeTree", "Null",
	"ReplacingMergeTree", "SummingMergeTree", "TinyLog", "VersionedCollapsingMergeTree", "View",
}

func knownEngine(name string) bool {
	same := func(known string) bool { return strings.EqualFold(known, name) }
	return slices.ContainsFunc(tableEngines, same) || same("Atomic") // of databases
}

// neverNamed are words that no statement contains, quoted or not: a function can be called without a bracket after it,
// as in arrayMap(file, …), PARALLEL WITH joins statements of which only the first word would be looked at, formatRow
// writes in formats that take a file or an address from settings, and reading system.models starts another program.
var neverNamed = slices.Concat(fixed, []string{
	"file", "formatrow", "formatrownonewline", "hascolumnintable", "infile", "models", "outfile", "parallel",
})

// neverBegins are how names of functions begin that read a file, ask a server or read a dictionary.
var neverBegins = []string{
	"addressto", "aiclassify", "aiembed", "aiextract", "aigenerate", "aitranslate", "catboost", "dictget", "dicthas",
	"dictisin",
	"joinget", "naivebayes",
}

// dataTypes are those of parameters, as in {x:Array(String)}. One of the type Identifier would be part of the statement
// itself.
var dataTypes = []string{
	"array", "bool", "date", "date32", "datetime", "datetime64", "decimal", "decimal32", "decimal64", "decimal128",
	"decimal256",
	"enum8", "enum16", "fixedstring", "float32", "float64", "int8", "int16", "int32", "int64", "int128", "int256",
	"ipv4", "ipv6",
	"lowcardinality", "map", "nullable", "string", "tuple", "uint8", "uint16", "uint32", "uint64", "uint128",
	"uint256", "uuid",
}

// makesNothing are verbs that create no table, so that ENGINE in them is a column.
var makesNothing = []string{
	"check", "delete", "desc", "describe", "exists", "explain", "insert", "kill", "select", "set", "show", "use", "with",
}

// neverCalled are functions beside the table functions that define where data is.
var neverCalled = []string{"disk", "s3", "azureblobstorage"}

// policy decides which statements run.
type policy struct {
	// refused are the names of all table functions that are not in tableFunctions, in lower case.
	refused map[string]bool
	// backups allows BACKUP and RESTORE; the engine itself holds them to the operator's path.
	backups bool
}

func newPolicy(functions []string, backups bool) policy {
	p := policy{refused: make(map[string]bool), backups: backups}
	for _, name := range slices.Concat(functions, neverCalled) {
		if name = strings.ToLower(name); !slices.Contains(tableFunctions, name) {
			p.refused[name] = true
		}
	}
	return p
}

// check returns an exception for a statement that names what it may not.
func (p policy) check(statement string) error {
	c := checker{policy: p, scanner: scanner{rest: statement}}
	c.advance()
	for c.this.kind == symbol && c.this.text == "(" {
		c.advance()
	}
	c.verb = strings.ToLower(c.this.text)
	switch {
	case c.this.kind == end:
		return c.err
	case c.this.kind != word, !slices.Contains(verbs, c.verb) && !c.isBackup():
		return denied("statements that begin with %s", c.this.text)
	}
	for ; c.this.kind != end; c.advance() {
		if err := c.look(); err != nil {
			return err
		}
	}
	return c.err
}

// checker walks through a statement with one token of look-ahead.
type checker struct {
	policy
	scanner        scanner
	verb           string
	last           token
	this           token
	next           token
	begun          bool
	err            error // of the scanner; the tokens end with it
	queried, given bool  // SELECT and VALUES have been seen
}

func (c *checker) advance() {
	if !c.begun {
		c.begun = true
		c.next = c.scan()
	}
	c.last, c.this = c.this, c.next
	c.next = c.scan()
}

func (c *checker) scan() token {
	if c.err != nil {
		return token{kind: end}
	}
	var t token
	t, c.err = c.scanner.next()
	return t
}

func (c *checker) isBackup() bool { return c.backups && (c.verb == "backup" || c.verb == "restore") }

// look judges the current token.
func (c *checker) look() error {
	t := c.this
	if t.kind == symbol && t.text == ";" && c.next.kind != end {
		return newException(codeSyntaxError, "SYNTAX_ERROR", "Multi-statements are not allowed")
	}
	if t.kind == symbol && t.text == "{" {
		return c.lookAtParameter()
	}
	if t.kind != word && t.kind != name {
		return nil
	}
	lower := strings.ToLower(t.text)
	called := c.next.kind == symbol && c.next.text == "("
	switch {
	case c.namesBackup(lower, called):
	case slices.Contains(neverNamed, lower),
		slices.ContainsFunc(neverBegins, func(s string) bool { return strings.HasPrefix(lower, s) }):
		return denied("%s", t.text)
	case t.kind == name && strings.Contains(t.text, "/"): // EXISTS TABLE "/path" says whether there is such a file
		return denied("names with a slash")
	case lower == "values" && called:
		// The rows of an insert, not the table function, whose first argument may hold SQL as text.
		if c.verb != "insert" || c.queried || c.given || t.kind != word {
			return denied("the table function values")
		}
		c.given = true
	case called && c.refused[lower]:
		return denied("the function %s", t.text)
	case t.kind == word && (lower == "select" || lower == "from"):
		c.queried = true
	case t.kind == word && lower == "engine" && !slices.Contains(makesNothing, c.verb):
		return c.lookAtEngine()
	}
	return nil
}

// namesBackup says whether File(…) is where a backup is: BACKUP … TO File('…'), RESTORE … FROM File('…'), and
// base_backup = File('…').
func (c *checker) namesBackup(lower string, called bool) bool {
	before := strings.ToLower(c.last.text)
	return c.isBackup() && lower == "file" && called && (before == "to" || before == "from" || before == "=")
}

// lookAtEngine judges the engine of a table or database, with or without an equals sign before its name.
func (c *checker) lookAtEngine() error {
	if c.next.kind == symbol && c.next.text == "=" {
		c.advance()
	}
	if c.next.kind != word && c.next.kind != name {
		return nil // a column of this name
	}
	if !knownEngine(c.next.text) {
		return denied("the engine %s", c.next.text)
	}
	return nil
}

// lookAtParameter judges what is in braces: a parameter for data, or a literal map.
func (c *checker) lookAtParameter() error {
	if c.next.kind == literal || c.next.kind == symbol && c.next.text == "}" {
		return nil
	}
	c.advance()
	if c.this.kind != word || c.next.kind != symbol || c.next.text != ":" {
		return denied("braces around anything but a parameter, as in {x:String}")
	}
	for c.advance(); c.next.kind != end && (c.next.kind != symbol || c.next.text != "}"); c.advance() {
		known := slices.Contains(dataTypes, strings.ToLower(c.next.text)) || number.MatchString(c.next.text)
		if c.next.kind == name || c.next.kind == word && !known || c.next.kind == symbol &&
			!strings.Contains("(),=-", c.next.text) {
			return denied("a parameter of the type %s: a parameter holds data, write names into the statement", c.next.text)
		}
	}
	return nil
}

func denied(format string, args ...any) error {
	return newException(codeAccessDenied, "ACCESS_DENIED",
		"This engine serves the relay's own tables and refuses %s. "+
			"Read files and other servers with a program of their own, and insert the rows", fmt.Sprintf(format, args...))
}

// splitInsert cuts an insert whose rows stand behind it, as in INSERT INTO t FORMAT CSV\n1,2\n, into the statement and
// the rows. The engine gets them apart: it would look for a further statement behind the rows.
func splitInsert(statement string) (insert, format, rows string, ok bool) {
	s := scanner{rest: statement}
	for before := (token{}); ; {
		t, err := s.next()
		if err != nil || t.kind == end || t.kind == word && strings.EqualFold(t.text, "SELECT") {
			return "", "", "", false
		}
		if before.kind == word && strings.EqualFold(before.text, "FORMAT") && t.kind == word {
			cut := len(statement) - len(s.rest) - len(t.text)
			insert = strings.TrimRight(statement[:cut], " \t\r\n")
			rows = strings.TrimLeft(s.rest, " \t\r")
			return insert[:len(insert)-len("FORMAT")], t.text, strings.TrimPrefix(rows, "\n"), true
		}
		before = t
	}
}
