package dashboard

// operationRoutes are the pages and actions of daily operation: recoveries, usage and the audit log.
func operationRoutes() []route {
	return []route{
		{"GET", usagePath, reader, showUsage},
		{"GET", auditPath, reader, listAudit},
	}
}
