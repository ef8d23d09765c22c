package dashboard

import (
	"errors"

	"github.com/eventrelay/relay/pkg/config"
)

// Errors of People.
var (
	ErrSignIn       = errors.New("unknown email address or wrong password")
	ErrSessionEnded = errors.New("the session has ended")
)

// scopeOf returns what a person may do.
func scopeOf(*config.User) config.Scope { return config.ReadWrite }
