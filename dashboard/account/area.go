// Package account has the sign-in, the settings, alerts, usage and the audit log.
package account

import (
	"cmp"
	"embed"
	"html/template"

	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/notify"
)

// usageColumns are the columns of days.
const usageColumns = "daily.date daily.received daily.sent daily.findings daily.total daily.bytes"

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{
		Pages: files,
		Routes: []ui.Route{
			{"GET", settingsPath, ui.Reader, ui.LeadTo(ui.KeysPath)},
			{"GET", ui.KeysPath, ui.Reader, ui.ListKeys(showKeys)},
			{"POST", ui.KeysPath, ui.Writer, ui.CreateKey(false, showKeys)},
			{"POST", ui.KeysPath + "/{key}/revoke", ui.Writer, revokeKey},
			{"GET", peoplePath, ui.Reader, listPeople},
			{"POST", peoplePath, ui.Writer, ui.Submit(addPerson)},
			{"POST", peoplePath + "/{person}/scope", ui.Writer, ui.Show(personInPath, setPersonScope)},
			{"POST", peoplePath + "/{person}/sign-out", ui.Writer, ui.Show(personInPath, endPersonSessions)},
			{"POST", peoplePath + "/{person}/reset", ui.Writer, ui.Show(personInPath, resetPerson)},
			{"POST", peoplePath + "/{person}/remove", ui.Writer, ui.Show(personInPath, removePerson)},
			{"GET", aboutPath, ui.Reader, showAbout},
			{"POST", aboutPath, ui.Writer, new(examiner).examine},

			{"GET", ui.SignInPath, ui.Public, signInForm},
			{"POST", ui.SignInPath, ui.Public, signIn},
			{"GET", ui.IssuerPath, ui.Public, toIssuer},
			{"GET", ui.IssuerPath + "/callback", ui.Public, fromIssuer},
			{"POST", ui.SignOutPath, ui.Reader, signOut},
			{"POST", "/app/sign-out-everywhere", ui.Reader, signOutEverywhere},
			{"GET", linkPath + "{token}", ui.Public, linkForm},
			{"POST", linkPath + "{token}", ui.Public, redeemLink},
			{"GET", ui.PasswordPath, ui.Reader, passwordForm},
			{"POST", ui.PasswordPath, ui.Reader, choosePassword},
			{"GET", changePasswordPath, ui.Reader, changePasswordForm},
			{"POST", changePasswordPath, ui.Reader, changePassword},

			{"GET", alertsPath, ui.Reader, ui.LeadTo(ui.AlertHistoryPath)},
			{"GET", ui.AlertHistoryPath, ui.Reader, listAlerts},
			{"POST", alertsPath + "/mute", ui.Writer, ui.Submit(muteAlerts)},
			{"GET", alertRulesPath, ui.Reader, ui.Show(readAlertSettings, alertRulesForm)},
			{"POST", alertRulesPath, ui.Writer, ui.Change(readAlertSettings, saveAlertRules)},
			{"POST", alertRulesPath + "/reset", ui.Writer, ui.Button("PATCH /v1/alerts", ui.Object{"rules": nil,
				"cooldown_seconds": alerting.DefaultAlertCooldown}, alertRulesPath, "All rules are as an account begins with")},
			{"GET", alertChannelsPath, ui.Reader, ui.Show(readAlertSettings, listChannels)},
			{"POST", alertChannelsPath + "/test", ui.Writer, ui.Change(readAlertSettings, testChannels)},
			{"POST", alertChannelsPath + "/{channel}", ui.Writer, ui.Change(readChannel, saveChannel)},
			{"POST", alertChannelsPath + "/{channel}/rotate", ui.Writer, ui.Change(readChannel, rotateChannel)},
			{"POST", alertChannelsPath + "/{channel}/remove", ui.Writer, ui.Change(readChannel, removeChannel)},
			{"GET", usagePath, ui.Reader, showUsage},
			{"GET", auditPath, ui.Reader, listAudit},
		},
		Lists: map[string]ui.CSVList{
			"audit": {API: "/v1/audit", Filters: auditFilters, Columns: "id at actor.type actor.id actor.name action " +
				"entity.type entity.id changes remote_ip request_id use.count use.last_at use.node related_id"},
			"alerts": {API: "/v1/alerts/history", Filters: alertFilters, Columns: "id rule state endpoint_id " +
				"destination_id recovery_id value threshold fired_at resolved_at"},
			"usage-days":    {API: "/v1/usage", Filters: periodFilter, Whole: true, Each: "daily", Columns: usageColumns},
			"usage-30-days": {API: "/v1/usage/daily", Whole: true, Each: "daily", Columns: usageColumns},
			"usage-endpoints": {API: "/v1/usage", Filters: periodFilter, Whole: true, Each: "by_endpoint",
				Columns: "by_endpoint.endpoint_id by_endpoint.received by_endpoint.sent by_endpoint.total by_endpoint.bytes"},
		},
		Functions: func(*ui.Dashboard) template.FuncMap {
			return template.FuncMap{"channel": func(k notify.Kind) string {
				return cmp.Or(model.ChannelTexts[k].Title, string(k))
			}}
		},
	}
}

//go:embed pages
var files embed.FS
