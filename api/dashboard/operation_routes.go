package dashboard

// operationRoutes are the pages and actions of daily operation: recoveries, usage and the audit log.
func operationRoutes() []route {
	return []route{
		{"GET", recoveriesPath, reader, listRecoveries},
		{"GET", newRecoveryPath, writer, newRecoveryForm},
		{"POST", recoveriesPath, writer, createRecovery},
		{"GET", recoveryPath, reader, showRecovery},
		{"POST", recoveryPath + "/canary", writer, actOnRecovery("canary", "The canary is sent")},
		{"POST", recoveryPath + "/continue", writer, actOnRecovery("continue", "The other deliveries are sent")},
		{"POST", recoveryPath + "/cancel", writer, actOnRecovery("cancel", "Cancelled. Nothing more is sent.")},
		{"GET", usagePath, reader, showUsage},
		{"GET", auditPath, reader, listAudit},
	}
}
