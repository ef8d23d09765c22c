package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Errors that Reader.AllowedWriters returns.
var (
	// ErrNoAuthorizer means that the brokers check no ACLs: every client that reaches them may do everything.
	ErrNoAuthorizer = errors.New("the brokers have no authorizer")
	// ErrACLsHidden means that this client lacks the permission to read the ACLs.
	ErrACLsHidden = errors.New("the ACLs cannot be read")
)

// AllowedWriter is a principal with an ACL that allows writing to topics of the service.
type AllowedWriter struct {
	Principal string
	Topics    []string // with the prefix, sorted
}

func (r *kafkaReader) AllowedWriters(ctx context.Context) (all []AllowedWriter, own string, err error) {
	rules := kadm.NewACLs().Topics().ResourcePatternType(kadm.ACLPatternAny).Operations(kadm.OpAny).
		Allow().AllowHosts().Deny().DenyHosts()
	found, err := r.adm.DescribeACLs(ctx, rules)
	for _, f := range found {
		err = errors.Join(err, f.Err)
	}
	switch {
	case errors.Is(err, kerr.SecurityDisabled):
		return nil, "", ErrNoAuthorizer
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return nil, "", ErrACLsHidden
	case err != nil:
		return nil, "", fmt.Errorf("read the ACLs: %w", err)
	}
	if _, rest, ok := strings.Cut(r.cfg.SASL, ":"); ok {
		user, _, _ := strings.Cut(rest, ":")
		own = "User:" + user
	}
	topics := make(map[string][]string)
	for _, f := range found {
		for _, rule := range f.Described {
			if rule.Principal == own || rule.Permission != kmsg.ACLPermissionTypeAllow || !allowsWriting(rule.Operation) {
				continue
			}
			for _, t := range Topics() {
				if name := r.cfg.Prefix + t.Name; appliesTo(rule, name) && !slices.Contains(topics[rule.Principal], name) {
					topics[rule.Principal] = append(topics[rule.Principal], name)
				}
			}
		}
	}
	for principal, names := range topics {
		slices.Sort(names)
		all = append(all, AllowedWriter{principal, names})
	}
	slices.SortFunc(all, func(a, b AllowedWriter) int { return strings.Compare(a.Principal, b.Principal) })
	return all, own, nil
}

// allowsWriting reports whether the operation lets a principal add or delete records of a topic, or change its
// settings.
func allowsWriting(op kadm.ACLOperation) bool {
	return slices.Contains([]kadm.ACLOperation{kadm.OpAll, kadm.OpWrite, kadm.OpDelete, kadm.OpAlter, kadm.OpAlterConfigs},
		op)
}

// appliesTo reports whether the ACL's resource pattern matches a topic.
func appliesTo(rule kadm.DescribedACL, topic string) bool {
	if rule.Pattern == kadm.ACLPatternPrefixed {
		return strings.HasPrefix(topic, rule.Name)
	}
	return rule.Name == topic || rule.Name == "*"
}
