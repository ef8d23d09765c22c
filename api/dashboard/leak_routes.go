package dashboard

// leakRoutes are the pages and actions of findings, log drains, domains and detection rules.
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
		{"GET", domainsPath, reader, listDomains},
		{"POST", domainsPath, writer, createDomain},
		{"GET", domainPath, reader, showDomain},
		{"POST", domainPath + "/verify", writer, verifyDomain},
		{"POST", domainPath + "/delete", writer, deleteDomain},
		{"GET", detectionPath, reader, showDetection},
		{"POST", detectionPath, writer, saveRule},
		{"POST", detectionPath + "/remove", writer, removeRule},
		{"POST", detectionPath + "/try", reader, tryLine},
	}
}
