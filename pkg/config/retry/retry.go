// Package retry has the policies by which a failed delivery is tried again: the table of strategies, their members,
// defaults and delays. It computes delays without jitter; the dispatcher adds that.
package retry

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/eventrelay/relay/pkg/config/require"
)

// Policy defines when a failed delivery is tried again. Only the members of its strategy are used. The tags are as in
// config.EndpointSettings.
type Policy struct {
	Strategy             string   `json:"strategy" in:"own" enum:"@strategies" description:"Default schedule."`
	ScheduleSeconds      []int    `json:"schedule_seconds,omitempty" in:"" minItems:"1" maxItems:"50" items.minimum:"1" items.maximum:"86400" description:"Delays between attempts in seconds. The last one repeats. For schedule."`
	InitialSeconds       int      `json:"initial_seconds,omitempty" in:"" minimum:"1" maximum:"3600" description:"First delay in seconds. For exponential. Default 5."`
	Multiplier           float64  `json:"multiplier,omitempty" in:"" minimum:"1" maximum:"10" description:"Growth of the delay. For exponential. Default 2."`
	MaxSeconds           int      `json:"max_seconds,omitempty" in:"" minimum:"1" maximum:"86400" description:"Longest delay in seconds. For exponential. Default 43200."`
	IntervalSeconds      int      `json:"interval_seconds,omitempty" in:"" minimum:"1" maximum:"86400" description:"Delay in seconds. For linear, required."`
	MaxAttempts          int      `json:"max_attempts" in:"" minimum:"1" maximum:"50" preset:"10" description:"Attempts in total, including the first one." label:"Maximum attempts" hint:"1 to 50. The strategy none makes one attempt, whatever this says"`
	Jitter               float64  `json:"jitter" in:"" minimum:"0" maximum:"1" preset:"0.1" description:"Random share by which a delay varies; 0.1 is up to 10 %." label:"Jitter" hint:"0 to 1: how much a wait varies, so that retries do not come all at once"`
	RespectRetryAfter    bool     `json:"respect_retry_after" in:"" preset:"true" description:"Whether Retry-After of a response delays the retry." label:"Respect Retry-After"`
	MaxRetryAfterSeconds int      `json:"max_retry_after_seconds" in:"" minimum:"0" maximum:"86400" preset:"86400" description:"Longest Retry-After that is followed, in seconds." label:"Longest Retry-After" hint:"0 to 1d"`
	RetryOn              []string `json:"retry_on" in:"" maxItems:"50" items.pattern:"^([34]xx|[34][0-9][0-9])$" description:"Further statuses to retry: 3xx, 4xx or a status such as 404. Network errors, timeouts, 408, 409, 425, 429 and 5xx are always retried." entry:"words" label:"Further statuses that are retried" hint:"3xx, 4xx, or single ones such as 404. Leave empty to retry only the statuses that are always retried"`
}

// Strategies that the program itself sets.
const (
	Schedule = "schedule"
	None     = "none" // one attempt
)

// retryStrategies lists all strategies. To add one, add an entry here and its members to Policy. The API, imports
// and the dispatcher use this list; a test compares the OpenAPI document with it.
var retryStrategies = []Strategy{
	{
		Name: Schedule,
		Members: []Member{
			{"schedule_seconds", func(p *Policy) any { return &p.ScheduleSeconds }},
		},
		defaults: Policy{ScheduleSeconds: []int{5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400}},
		delay: func(p Policy, failed int) float64 {
			if len(p.ScheduleSeconds) == 0 {
				return 0
			}
			return float64(p.ScheduleSeconds[min(failed, len(p.ScheduleSeconds))-1]) // the last one repeats
		},
	},
	{
		Name: "exponential",
		Members: []Member{
			{"initial_seconds", func(p *Policy) any { return &p.InitialSeconds }},
			{"multiplier", func(p *Policy) any { return &p.Multiplier }},
			{"max_seconds", func(p *Policy) any { return &p.MaxSeconds }},
		},
		defaults: Policy{InitialSeconds: 5, Multiplier: 2, MaxSeconds: 43200},
		delay: func(p Policy, failed int) float64 {
			return min(float64(p.InitialSeconds)*math.Pow(max(p.Multiplier, 1), float64(failed-1)), float64(p.MaxSeconds))
		},
	},
	{
		Name: "linear",
		Members: []Member{
			{"interval_seconds", func(p *Policy) any { return &p.IntervalSeconds }},
		},
		delay: func(p Policy, _ int) float64 { return float64(p.IntervalSeconds) },
	},
	{Name: None},
}

// Strategy computes the waits between the attempts of a delivery.
type Strategy struct {
	Name     string
	Members  []Member // the members of a policy that the strategy uses
	defaults Policy   // defaults of Members; a member without a default is required
	// delay returns the wait in seconds after a number of failed attempts (from 1).
	delay func(p Policy, failed int) float64
}

// Member is a member of a policy: a number or a list of numbers.
type Member struct {
	Name string
	// Field returns a pointer to the member: *int, *float64 or *[]int.
	Field func(p *Policy) any
}

// Strategies returns all strategies.
func Strategies() []Strategy { return retryStrategies }

// StrategyNames returns the names of all strategies.
func StrategyNames() []string {
	names := make([]string, len(retryStrategies))
	for i := range retryStrategies {
		names[i] = retryStrategies[i].Name
	}
	return names
}

// strategy returns the strategy of the policy; nil if only newer versions know it.
func (p *Policy) strategy() *Strategy {
	i := slices.IndexFunc(retryStrategies, func(s Strategy) bool { return s.Name == p.Strategy })
	if i < 0 {
		return nil
	}
	return &retryStrategies[i]
}

// Members returns the members that the policy's strategy uses.
func (p *Policy) Members() []Member {
	if s := p.strategy(); s != nil {
		return s.Members
	}
	return nil
}

// SetStrategy sets the strategy to one of StrategyNames, and its members to their defaults.
func (p *Policy) SetStrategy(name string) {
	p.Strategy = name
	for _, s := range retryStrategies {
		from := s.defaults
		from.ScheduleSeconds = slices.Clone(from.ScheduleSeconds)
		for _, m := range s.Members {
			to := reflect.ValueOf(m.Field(p)).Elem()
			to.SetZero()
			if s.Name == name {
				to.Set(reflect.ValueOf(m.Field(&from)).Elem())
			}
		}
	}
}

// DelaySeconds returns the wait in seconds after the given number of failed attempts (from 1), without jitter and
// unbounded. For a strategy that only newer versions know it is that of the default policy: without a wait the attempt
// budget would be spent at once.
func (p *Policy) DelaySeconds(failed int) float64 {
	switch s := p.strategy(); {
	case s == nil:
		fallback := Default()
		return fallback.DelaySeconds(failed)
	case s.delay != nil:
		return s.delay(*p, failed)
	}
	return 0
}

// Attempts returns the attempt budget of a delivery, the first attempt included.
func (p *Policy) Attempts() int {
	if p.Strategy == None {
		return 1
	}
	return max(p.MaxAttempts, 1)
}

// Default returns the policy of an endpoint that sets none: ten attempts over three days.
func Default() Policy {
	p := Policy{RetryOn: []string{"3xx", "4xx"}}
	require.Preset(&p)
	p.SetStrategy(Schedule)
	return p
}

func (p *Policy) Validate() error {
	errs := []error{require.OneOf("retry_policy.strategy", p.Strategy, StrategyNames()...),
		require.Bounds("retry_policy", p)}
	for _, m := range p.Members() {
		if reflect.ValueOf(m.Field(p)).Elem().IsZero() {
			errs = append(errs, fmt.Errorf("retry_policy.%s is missing", m.Name))
		}
	}
	return errors.Join(errs...)
}
