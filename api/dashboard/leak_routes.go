package dashboard

// leakRoutes are the pages and actions of findings and log drains.
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
	}
}
