package node

import (
	"context"

	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/oidc"
)

// checkIssuer returns the check of the doctor that asks the issuer; nil without one.
func checkIssuer(s nodeconfig.Config, baseURL string) func(context.Context) (redirectURL string, err error) {
	if s.OIDCIssuer == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		cfg := s.OIDC(dashboard.URL(baseURL, s.DashboardHost) + dashboard.IssuerCallback)
		client, err := oidc.New(cfg, crash.Clock())
		if err != nil {
			return "", err
		}
		return cfg.RedirectURL, client.Check(ctx)
	}
}
