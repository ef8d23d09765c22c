package node

import (
	"context"

	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/oidc"
)

// OIDC returns how people sign in by an OpenID Connect issuer. baseURL is the public address of the service.
func (s Config) OIDC(baseURL string) oidc.Config {
	return oidc.Config{
		Issuer: s.OIDCIssuer, ClientID: s.OIDCClientID, ClientSecret: s.OIDCClientSecret, Scopes: s.OIDCScopes,
		GroupsClaim: s.OIDCGroupsClaim, VerifiedClaim: s.OIDCVerifiedClaim, ReadGroups: s.OIDCReadGroups,
		WriteGroups: s.OIDCWriteGroups, RedirectURL: dashboard.URL(baseURL, s.DashboardHost) + dashboard.IssuerCallback,
		CAFile: s.EgressCAFile, DNSServer: s.DNSServer,
	}
}

// checkIssuer returns the check of the doctor that asks the issuer; nil without one.
func (s Config) checkIssuer(baseURL string) func(context.Context) (redirectURL string, err error) {
	if s.OIDCIssuer == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		cfg := s.OIDC(baseURL)
		client, err := oidc.New(cfg, crash.Clock())
		if err != nil {
			return "", err
		}
		return cfg.RedirectURL, client.Check(ctx)
	}
}
