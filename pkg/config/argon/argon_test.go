package argon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/must"
)

func TestPasswordHash(t *testing.T) {
	p := NewHasher()
	text := p.Hash("correct horse")
	if !p.Matches(text, "correct horse") || p.Matches(text, "correct horsf") || p.Matches(text, "") ||
		p.Hash("correct horse") == text {
		t.Errorf("%s", text)
	}
	if !strings.HasPrefix(text, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("%s is weaker than the OWASP minimum", text)
	}
	// made by the reference implementation of argon2 with other parameters
	const foreign = "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"
	if !p.Matches(foreign, "password") || p.Matches(foreign, "passwort") {
		t.Error("a hash with other parameters does not match")
	}
	if p.Matches("", "") || p.Matches("", "x") {
		t.Error("a user without a password matches")
	}
}

func TestParseHashRefuses(t *testing.T) {
	const good = "$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc"
	must.Get(Parse(good))(t)
	for from, to := range map[string]string{
		good: "", "$argon2id": "x$argon2id", "argon2id": "argon2i", "v=19": "v=16", "m=256": "m=8", "t=2": "t=0",
		"p=2": "p=0", "m=256,": "m=1000000000,", "t=2,": "t=1000000,", ",p=2$": ",p=2 $", "c29tZXNhbHQ$": "c29t$",
		"$bQk8": "$!Qk8", "m=256,t": "m=0256,t", "HQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc": "HQ$",
	} {
		if _, err := Parse(strings.Replace(good, from, to, 1)); err == nil {
			t.Errorf("accepted with %q instead of %q", to, from)
		}
	}
}

// At most four passwords are hashed at once. Others wait for at most three seconds, or until their caller gives up.
func TestHashesAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewHasher()
		for range maxHashes {
			p.SignIns <- struct{}{}
		}
		began := time.Now()
		if err := p.SignIns.Do(t.Context(), func() { t.Error("a fifth hash runs") }); !errors.Is(err, ErrBusy) ||
			time.Since(began) != maxHashWait {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := p.SignIns.Do(ctx, func() {}); !errors.Is(err, ErrBusy) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ran := false
		if err := p.Chosen.Do(t.Context(), func() { ran = true }); err != nil || !ran {
			t.Errorf("a person who is signed in waits for sign-ins: %v", err)
		}
		<-p.SignIns
		ran = false
		if err := p.SignIns.Do(t.Context(), func() { ran = len(p.SignIns) == maxHashes }); err != nil || !ran ||
			len(p.SignIns) != maxHashes-1 {
			t.Errorf("%v, %v", err, ran)
		}
	})
}
