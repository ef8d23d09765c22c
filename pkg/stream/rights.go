package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// MissingRight is an operation that the brokers do not allow this client.
type MissingRight struct {
	Operation string   // Kafka's name, such as Write
	Resource  string   // topic or group
	Names     []string // with the prefix
}

func (m MissingRight) String() string {
	return fmt.Sprintf("%s on %s %s", m.Operation, m.Resource, strings.Join(m.Names, ", "))
}

// ErrRights means that the ACLs do not allow this client what a node does.
var ErrRights = errors.New("the ACLs of Kafka do not allow this node's principal what it needs")

// RightsError returns an error that names missing rights; nil without any.
func RightsError(missing []MissingRight) error {
	if len(missing) == 0 {
		return nil
	}
	lines := make([]string, len(missing))
	for i, m := range missing {
		lines[i] = m.String()
	}
	return fmt.Errorf("%w; add them as docs/operate/security.md shows:\n%s", ErrRights, strings.Join(lines, "\n"))
}

// MissingRights asks the brokers which operations of a node their authorizer does not allow this client. It says
// nothing of topics that do not exist, and of groups whose coordinator is starting. trims is whether the node trims the
// log. Brokers without an authorizer, and the log in this process, allow everything.
func MissingRights(ctx context.Context, c Config, trims bool) (missing []MissingRight, err error) {
	if c.Embedded != nil {
		return nil, nil // nobody else can open it
	}
	// Since version 6 of DescribeGroups brokers name no operations of a group that does not exist yet.
	const describeGroupsKey, describeGroupsVersion = 15, 5
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(describeGroupsKey, describeGroupsVersion)
	// Some errors are repeated that only another setting ends: a refused client certificate, for example.
	const retries = 5 // 1.6 s
	cl, err := c.newClient("rights", kgo.MaxVersions(versions), kgo.RequestRetries(retries))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var found rights
	if err := found.addTopics(ctx, cl, c.Prefix, trims); err != nil {
		return nil, explainSecurity(err)
	}
	return found, explainSecurity(found.addGroups(ctx, kadm.NewClient(cl), c.Prefix))
}

// rights collects missing rights.
type rights []MissingRight

func (r *rights) add(op kadm.ACLOperation, resource, name string) {
	// Kafka writes operations of several words without underscores: DescribeConfigs.
	operation := ""
	for word := range strings.SplitSeq(strings.ToLower(op.String()), "_") {
		operation += strings.ToUpper(word[:1]) + word[1:]
	}
	i := slices.IndexFunc(*r, func(m MissingRight) bool { return m.Operation == operation && m.Resource == resource })
	if i < 0 {
		*r = append(*r, MissingRight{Operation: operation, Resource: resource})
		i = len(*r) - 1
	}
	(*r)[i].Names = append((*r)[i].Names, name)
}

// addMissing adds the operations in want that allowed lacks. Brokers that do not say what is allowed count as allowing
// everything: who may do nothing gets an error instead.
func (r *rights) addMissing(want, allowed []kadm.ACLOperation, resource, name string) {
	for _, op := range want {
		if len(allowed) > 0 && !slices.Contains(allowed, op) {
			r.add(op, resource, name)
		}
	}
}

func (r *rights) addTopics(ctx context.Context, cl *kgo.Client, prefix string, trims bool) error {
	want := []kadm.ACLOperation{kadm.OpRead, kadm.OpWrite, kadm.OpDescribeConfigs}
	if trims {
		want = append(want, kadm.OpDelete)
	}
	req := kmsg.NewPtrMetadataRequest() // kadm answers with an error if one topic may not be described
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range Topics() {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(prefix + t.Name)
		req.Topics = append(req.Topics, topic)
	}
	described, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("ask for the rights on topics: %w", err)
	}
	for _, t := range described.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			for _, op := range want {
				r.add(op, "topic", *t.Topic)
			}
		case err == nil:
			r.addMissing(want, kadm.DecodeACLOperations(t.AuthorizedOperations), "topic", *t.Topic)
		}
	}
	return nil
}

// addGroups asks for all groups at once. Kafka's answer for a group that may not be described is an error of the whole
// request: then it asks for one after the other.
func (r *rights) addGroups(ctx context.Context, adm *kadm.Client, prefix string) error {
	var names []string
	for _, group := range Groups() {
		names = append(names, prefix+group)
	}
	described, err := adm.DescribeGroups(ctx, names...)
	for _, name := range names {
		one := err
		if errors.Is(err, kerr.GroupAuthorizationFailed) {
			described, one = adm.DescribeGroups(ctx, name)
		}
		if one == nil {
			one = described[name].Err
		}
		switch {
		case errors.Is(one, kerr.GroupAuthorizationFailed):
			r.add(kadm.OpRead, "group", name)
		case kerr.IsRetriable(one): // the coordinator of the group is starting
		case one != nil:
			return fmt.Errorf("ask for the rights on group %s: %w", name, one)
		default:
			r.addMissing([]kadm.ACLOperation{kadm.OpRead}, described[name].AuthorizedOperations, "group", name)
		}
	}
	return nil
}

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
