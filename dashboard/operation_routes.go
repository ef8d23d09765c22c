package dashboard

import "github.com/eventrelay/relay/pkg/config"

// operationRoutes are the pages and actions of daily operation: recoveries, alerts, usage and the audit log.
func operationRoutes() []route {
	return []route{
		{"GET", recoveriesPath, reader, listRecoveries},
		{"GET", newRecoveryPath, writer, newRecoveryForm},
		{"POST", recoveriesPath, writer, submit(createRecovery)},
		{"GET", recoveryPath, reader, show(readRecovery, showRecovery)},
		{"POST", recoveryPath + "/canary", writer, actOnRecovery("canary", "The canary is sent")},
		{"POST", recoveryPath + "/continue", writer, actOnRecovery("continue", "Sending the other deliveries")},
		{"POST", recoveryPath + "/cancel", writer, actOnRecovery("cancel", "Cancelled. Nothing more is sent.")},
		{"GET", csvPath + "/{list}", reader, downloadCSV},
		{"GET", alertsPath, reader, openAlerts},
		{"GET", alertHistoryPath, reader, listAlerts},
		{"POST", alertsPath + "/mute", writer, submit(muteAlerts)},
		{"GET", alertRulesPath, reader, show(readAlertSettings, alertRulesForm)},
		{"POST", alertRulesPath, writer, change(readAlertSettings, saveAlertRules)},
		{"POST", alertRulesPath + "/reset", writer, act("PATCH /v1/alerts", members{"rules": nil,
			"cooldown_seconds": config.DefaultAlertCooldown}, alertRulesPath, "All rules are as an account begins with")},
		{"GET", alertChannelsPath, reader, show(readAlertSettings, listChannels)},
		{"POST", alertChannelsPath + "/test", writer, change(readAlertSettings, testChannels)},
		{"POST", alertChannelsPath + "/{channel}", writer, change(readChannel, saveChannel)},
		{"POST", alertChannelsPath + "/{channel}/rotate", writer, change(readChannel, rotateChannel)},
		{"POST", alertChannelsPath + "/{channel}/remove", writer, change(readChannel, removeChannel)},
		{"GET", usagePath, reader, showUsage},
		{"GET", auditPath, reader, listAudit},
	}
}
