package verify

import (
	"fmt"
	"time"
)

// GitHub is the name of the provider GitHub and of its verification type.
const GitHub = "github"

var github = Scheme{
	Name: GitHub, Title: "GitHub", TypeSource: "header:X-GitHub-Event", check: checkGitHub, sign: signGitHub,
	layout:            githubLayout,
	secretsOfOtherUse: map[string]string{"ghp_": "a personal access token", "github_pat_": "a personal access token"},
	Sample: Sample{
		Type: "push", UserAgent: "GitHub-Hookshot/sample", ContentType: jsonType, Body: githubSample,
		Header: func(x SampleValues) map[string]string {
			return map[string]string{
				"X-GitHub-Event": x.Type, "X-GitHub-Delivery": x.ID, "X-GitHub-Hook-ID": "1",
				"X-GitHub-Hook-Installation-Target-Type": "repository",
			}
		},
	},
}

const githubHeader, githubPrefix = "X-Hub-Signature-256", "sha256="

// checkGitHub reads `X-Hub-Signature-256: sha256=<hex>`, HMAC-SHA256 of the body. GitHub still sends the older
// `X-Hub-Signature` (SHA-1) too; without the SHA-256 header, the signature is missing.
func checkGitHub(c Config, r Request) (time.Time, Reason) {
	return time.Time{}, checkBodySignature(c, r, githubHeader, githubPrefix, hexSHA256())
}

func githubLayout(Config, Request) layout {
	return layout{header: githubHeader, prefix: githubPrefix, form: hexSHA256()}
}

func signGitHub(c Config, r Request, _ string) error {
	setHeader(r, githubHeader, githubPrefix+hexSHA256().sign(c, message{body: r.Body}))
	return nil
}

func githubSample(x SampleValues) string {
	return fmt.Sprintf(`{"ref":"refs/heads/main","before":"%040d","after":"%040d","created":false,"deleted":false,`+
		`"forced":false,`+
		`"repository":{"id":1,"name":"sample","full_name":"octo-sample/sample","private":true,"default_branch":"main"},`+
		`"pusher":{"name":"octo-sample"},"sender":{"login":"octo-sample","id":1,"type":"User"},`+
		`"head_commit":{"id":"%040d","message":"A sample `+
		`commit","timestamp":%q,"added":[],"removed":[],"modified":["README.md"]}}`,
		1, 2, 2, x.iso())
}
