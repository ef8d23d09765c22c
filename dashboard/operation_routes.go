package dashboard

// operationRoutes are the pages and actions of daily operation: recoveries, alerts, usage and the audit log.
func operationRoutes() []route {
	return []route{
		{"GET", recoveriesPath, reader, listRecoveries},
		{"GET", newRecoveryPath, writer, newRecoveryForm},
		{"POST", recoveriesPath, writer, createRecovery},
		{"GET", recoveryPath, reader, showRecovery},
		{"POST", recoveryPath + "/canary", writer, actOnRecovery("canary", "The canary is sent")},
		{"POST", recoveryPath + "/continue", writer, actOnRecovery("continue", "Sending the other deliveries")},
		{"POST", recoveryPath + "/cancel", writer, actOnRecovery("cancel", "Cancelled. Nothing more is sent.")},
		{"GET", csvPath + "/{list}", reader, downloadCSV},
		{"GET", alertsPath, reader, openAlerts},
		{"GET", alertHistoryPath, reader, listAlerts},
		{"POST", alertsPath + "/mute", writer, muteAlerts},
		{"GET", alertRulesPath, reader, alertRulesForm},
		{"POST", alertRulesPath, writer, saveAlertRules},
		{"POST", alertRulesPath + "/reset", writer, resetAlertRules},
		{"GET", alertChannelsPath, reader, listChannels},
		{"POST", alertChannelsPath + "/test", writer, testChannels},
		{"POST", alertChannelsPath + "/{channel}", writer, saveChannel},
		{"POST", alertChannelsPath + "/{channel}/rotate", writer, rotateChannel},
		{"POST", alertChannelsPath + "/{channel}/remove", writer, removeChannel},
		{"GET", usagePath, reader, showUsage},
		{"GET", auditPath, reader, listAudit},
	}
}
