package dashboard

// leakRoutes are the pages and actions of findings, log drains, applications, domains, tripwires and detection
// rules.
func leakRoutes() []route {
	return []route{
		{"GET", findingsPath, reader, listFindings},
		{"GET", findingPath, reader, showFinding},
		{"POST", findingPath, writer, setStatus},
		{"GET", drainsPath, reader, listDrains},
		{"POST", drainsPath, writer, createDrain},
		{"GET", drainPath, reader, showDrain},
		{"POST", drainPath, writer, saveDrain},
		{"POST", drainPath + "/pause", writer, pauseDrain},
		{"POST", drainPath + "/unpause", writer, unpauseDrain},
		{"POST", drainPath + "/rotate", writer, rotateDrain},
		{"POST", drainPath + "/delete", writer, deleteDrain},
		{"GET", applicationsPath, reader, listApplications},
		{"POST", applicationsPath, writer, createApplication},
		{"GET", applicationPath, reader, showApplication},
		{"POST", applicationPath, writer, saveApplication},
		{"POST", applicationPath + "/rotate", writer, rotateApplication},
		{"POST", applicationPath + "/delete", writer, deleteApplication},
		{"GET", domainsPath, reader, listDomains},
		{"POST", domainsPath, writer, createDomain},
		{"GET", domainPath, reader, showDomain},
		{"POST", domainPath + "/verify", writer, verifyDomain},
		{"POST", domainPath + "/delete", writer, deleteDomain},
		{"POST", domainPath + "/scan", writer, scanDomain},
		{"POST", domainPath + "/tripwires", writer, createTripwire},
		{"GET", tripwirePath, reader, showTripwire},
		{"POST", tripwirePath + "/rotate", writer, rotateTripwire},
		{"POST", tripwirePath + "/test", writer, expectTripwireTest},
		{"POST", tripwirePath + "/delete", writer, deleteTripwire},
		{"GET", scansPath, reader, listScans},
		{"GET", scanPath, reader, showScan},
		{"GET", detectionPath, reader, showDetection},
		{"POST", detectionPath, writer, saveRule},
		{"POST", detectionPath + "/remove", writer, removeRule},
		{"POST", detectionPath + "/try", writer, tryLine},
	}
}
