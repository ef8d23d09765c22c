// Package account has the sign-in, the settings, alerts, usage and the audit log.
package account

import (
	"cmp"
	"embed"
	"html/template"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/notify"
)

// usageColumns are the columns of days.
const usageColumns = "daily.date daily.received daily.sent daily.findings daily.total daily.bytes"

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{
		Pages: files,
		Routes: []frame.Route{
			{"GET", settingsPath, frame.Reader, frame.LeadTo(frame.KeysPath)},
			{"GET", frame.KeysPath, frame.Reader, frame.ListKeys(showKeys)},
			{"POST", frame.KeysPath, frame.Writer, frame.CreateKey(false, showKeys)},
			{"POST", frame.KeysPath + "/{key}/revoke", frame.Writer, revokeKey},
			{"GET", peoplePath, frame.Reader, listPeople},
			{"POST", peoplePath, frame.Writer, frame.Submit(addPerson)},
			{"POST", peoplePath + "/{person}/scope", frame.Writer, frame.Show(personInPath, setPersonScope)},
			{"POST", peoplePath + "/{person}/sign-out", frame.Writer, frame.Show(personInPath, endPersonSessions)},
			{"POST", peoplePath + "/{person}/reset", frame.Writer, frame.Show(personInPath, resetPerson)},
			{"POST", peoplePath + "/{person}/remove", frame.Writer, frame.Show(personInPath, removePerson)},
			{"GET", aboutPath, frame.Reader, showAbout},
			{"POST", aboutPath, frame.Writer, new(examiner).examine},

			{"GET", frame.SignInPath, frame.Public, signInForm},
			{"POST", frame.SignInPath, frame.Public, signIn},
			{"GET", frame.IssuerPath, frame.Public, toIssuer},
			{"GET", frame.IssuerPath + "/callback", frame.Public, fromIssuer},
			{"POST", frame.SignOutPath, frame.Reader, signOut},
			{"POST", "/app/sign-out-everywhere", frame.Reader, signOutEverywhere},
			{"GET", linkPath + "{token}", frame.Public, linkForm},
			{"POST", linkPath + "{token}", frame.Public, redeemLink},
			{"GET", frame.PasswordPath, frame.Reader, passwordForm},
			{"POST", frame.PasswordPath, frame.Reader, choosePassword},
			{"GET", changePasswordPath, frame.Reader, changePasswordForm},
			{"POST", changePasswordPath, frame.Reader, changePassword},

			{"GET", alertsPath, frame.Reader, frame.LeadTo(frame.AlertHistoryPath)},
			{"GET", frame.AlertHistoryPath, frame.Reader, listAlerts},
			{"POST", alertsPath + "/mute", frame.Writer, frame.Submit(muteAlerts)},
			{"GET", alertRulesPath, frame.Reader, frame.Show(readAlertSettings, alertRulesForm)},
			{"POST", alertRulesPath, frame.Writer, frame.Change(readAlertSettings, saveAlertRules)},
			{"POST", alertRulesPath + "/reset", frame.Writer, frame.Button("PATCH /v1/alerts", frame.Object{"rules": nil,
				"cooldown_seconds": alerting.DefaultAlertCooldown}, alertRulesPath, "All rules are as an account begins with")},
			{"GET", alertChannelsPath, frame.Reader, frame.Show(readAlertSettings, listChannels)},
			{"POST", alertChannelsPath + "/test", frame.Writer, frame.Change(readAlertSettings, testChannels)},
			{"POST", alertChannelsPath + "/{channel}", frame.Writer, frame.Change(readChannel, saveChannel)},
			{"POST", alertChannelsPath + "/{channel}/rotate", frame.Writer, frame.Change(readChannel, rotateChannel)},
			{"POST", alertChannelsPath + "/{channel}/remove", frame.Writer, frame.Change(readChannel, removeChannel)},
			{"GET", usagePath, frame.Reader, showUsage},
			{"GET", auditPath, frame.Reader, listAudit},
		},
		Lists: map[string]frame.CSVList{
			"audit": {API: "/v1/audit", Filters: auditFilters, Columns: "id at actor.type actor.id actor.name action " +
				"entity.type entity.id changes remote_ip request_id use.count use.last_at use.node related_id"},
			"alerts": {API: "/v1/alerts/history", Filters: alertFilters, Columns: "id rule state endpoint_id " +
				"destination_id recovery_id value threshold fired_at resolved_at"},
			"usage-days":    {API: "/v1/usage", Filters: periodFilter, Whole: true, Each: "daily", Columns: usageColumns},
			"usage-30-days": {API: "/v1/usage/daily", Whole: true, Each: "daily", Columns: usageColumns},
			"usage-endpoints": {API: "/v1/usage", Filters: periodFilter, Whole: true, Each: "by_endpoint",
				Columns: "by_endpoint.endpoint_id by_endpoint.received by_endpoint.sent by_endpoint.total by_endpoint.bytes"},
		},
		Functions: func(*frame.Dashboard) template.FuncMap {
			return template.FuncMap{"channel": func(k notify.Kind) string {
				return cmp.Or(model.ChannelTexts[k].Title, string(k))
			}}
		},
	}
}

//go:embed pages
var files embed.FS
