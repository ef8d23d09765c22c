package account

import (
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// A sign-in leads to our own pages only.
func TestNextIsAPageOfTheDashboard(t *testing.T) {
	for next, want := range map[string]string{
		"": "/app", "/app": "/app", "/app/events?q=a%20b&x=1": "/app/events?q=a%20b&x=1", "/app/x/%2F": "/app",
		"https://evil.example/app": "/app", "//evil.example/app": "/app", "/\\evil.example": "/app",
		"/app\\..\\..": "/app", "/app/x\\y": "/app/x%5Cy", "/app/../v1/me": "/app", "/application": "/app", "/v1/me": "/app",
		"app":                 "/app",
		"javascript:alert(1)": "/app", "/app\r\nSet-Cookie: x": "/app", "/app//evil.example": "/app", "/app?\x00": "/app",
		"/app/sign-in": "/app", "/app/link/token": "/app", "/app#x": "/app", "http:/app": "/app", "/app/%2e%2e/v1": "/app",
	} {
		is.Equal(t, localPath(next), want, "%q leads to", next)
	}
}
