// Package require has the checks of values that come from outside: each returns an error that names the value and the
// bounds that it must keep.
package require

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Set returns an error for each field of deps, a struct, that is zero and not optional.
func Set(name string, deps any, optional ...string) error {
	var errs []error
	v := reflect.ValueOf(deps)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.Anonymous && v.FieldByIndex(f.Index).IsZero() && !slices.Contains(optional, f.Name) {
			errs = append(errs, fmt.Errorf("%s dependency %s is missing", name, f.Name))
		}
	}
	return errors.Join(errs...)
}

// Bounds returns the errors of the members of x, a pointer to a struct, that are outside of the bounds in their
// tags. These are the bounds of the API; see package wire. Those of a member that omitempty leaves out do not count.
// name is the member that has x; empty: none.
func Bounds(name string, x any) error {
	var errs []error
	v := reflect.ValueOf(x).Elem()
	for i := range v.NumField() {
		at, tag := v.Field(i), v.Type().Field(i).Tag
		if at.Kind() == reflect.Pointer {
			at = at.Elem() // invalid if it is nil
		}
		member, options, _ := strings.Cut(tag.Get("json"), ",")
		if options == "omitempty" && at.IsZero() {
			continue
		}
		if name != "" {
			member = name + "." + member
		}
		bound := func(keyword string) float64 {
			n, _ := strconv.ParseFloat(tag.Get(keyword), 64)
			return n
		}
		switch at.Kind() {
		case reflect.Struct:
			if !at.Type().ConvertibleTo(reflect.TypeFor[time.Time]()) {
				errs = append(errs, Bounds(member, at.Addr().Interface()))
			}
		case reflect.Int:
			errs = append(errs, Range(member, int(at.Int()), int(bound("minimum")), int(bound("maximum"))))
		case reflect.Float64:
			errs = append(errs, Range(member, at.Float(), bound("minimum"), bound("maximum")))
		case reflect.Slice:
			errs = append(errs, Range(member, at.Len(), int(bound("minItems")), int(bound("maxItems"))))
			for i := 0; i < at.Len() && at.Type().Elem().Kind() == reflect.Struct; i++ {
				errs = append(errs, Bounds(fmt.Sprintf("%s[%d]", member, i), at.Index(i).Addr().Interface()))
			}
			numbers, _ := at.Interface().([]int)
			for _, n := range numbers {
				errs = append(errs, Range(member, n, int(bound("items.minimum")), int(bound("items.maximum"))))
			}
		case reflect.String:
			switch words := tag.Get("enum"); {
			case strings.HasPrefix(words, "@"): // a table, which the caller has
			case words != "":
				errs = append(errs, OneOf(member, at.String(), strings.Split(words, ",")...))
			default:
				errs = append(errs, Text(member, at.String(), int(bound("minLength")), int(bound("maxLength"))))
			}
		}
	}
	return errors.Join(errs...)
}

// Preset sets the members of x, a pointer to a struct, to the values in their tags preset.
func Preset(x any) {
	v := reflect.ValueOf(x).Elem()
	for i := range v.NumField() {
		text := v.Type().Field(i).Tag.Get("preset")
		switch at := v.Field(i); at.Kind() {
		case reflect.Bool:
			at.SetBool(text == "true")
		case reflect.Int:
			n, _ := strconv.Atoi(text)
			at.SetInt(int64(n))
		case reflect.Float64:
			n, _ := strconv.ParseFloat(text, 64)
			at.SetFloat(n)
		case reflect.String:
			at.SetString(text)
		}
	}
}

// Range returns an error unless lo <= n <= hi.
func Range[N int | float64](name string, n, lo, hi N) error {
	if n >= lo && n <= hi { // false for NaN
		return nil
	}
	return fmt.Errorf("%s must be %[3]v to %[4]v, not %[2]v", name, n, lo, hi)
}

// Text returns an error unless s is valid UTF-8 of lo to hi characters.
func Text(name, s string, lo, hi int) error {
	if n := utf8.RuneCountInString(s); n < lo || n > hi || !utf8.ValidString(s) {
		return fmt.Errorf("%s must have %[3]d to %[4]d characters, not %[2]d", name, n, lo, hi)
	}
	return nil
}

// OneOf returns an error unless value is one of the words.
func OneOf(name, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %[3]s, not %.100[2]q", name, value, strings.Join(words, ", "))
}

const (
	// MaxName is the maximum length of names, in characters.
	MaxName = 100
	// MaxDestinations is the maximum number of destinations of an endpoint.
	MaxDestinations = 50
)

// Hash requires the length of a SHA-256.
func Hash(hash []byte) error { return Range("length of hash", len(hash), sha256.Size, sha256.Size) }
