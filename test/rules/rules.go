// Package rules has the rules of the whole project, as tests: which package may import which, who may start goroutines,
// that documents name what exists, that released files do not change. They read the files of the project and run in its
// root directory.
package rules
