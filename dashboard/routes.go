package dashboard

import (
	"slices"

	"github.com/eventrelay/relay/pkg/config"
)

// routes is the table of all pages and actions.
func routes() []route {
	return slices.Concat([]route{
		{"GET", "/app", reader, showStart},
		{"GET", "/", public, leadTo("/app")},
		{"GET", "/app/", public, leadTo("/app")},

		{"GET", eventsPath, reader, listEvents},
		{"GET", eventPath, reader, showEvent},
		{"GET", eventPath + "/attempts", reader, listAttempts},
		{"GET", eventPath + "/body", reader, downloadBody},
		{"POST", eventPath + "/replay", writer, submit(replayEvent)},
		{"POST", eventPath + "/erase", writer, erasePayload},

		{"GET", settingsPath, reader, leadTo(keysPath)},
		{"GET", keysPath, reader, listKeys(showKeys)},
		{"POST", keysPath, writer, createKey(false, showKeys)},
		{"POST", keysPath + "/{key}/revoke", writer, revokeKey},
		{"GET", agentsPath, reader, listKeys(showAgents)},
		{"POST", agentsPath, writer, createKey(true, showAgents)},
		{"GET", confirmPath, reader, showConfirm},
		{"POST", confirmPath + "/approve", writer, approveAct},
		{"POST", confirmPath + "/decline", writer, declineAct},
		{"GET", peoplePath, reader, listPeople},
		{"POST", peoplePath, writer, submit(addPerson)},
		{"POST", peoplePath + "/{person}/scope", writer, show(personInPath, setPersonScope)},
		{"POST", peoplePath + "/{person}/sign-out", writer, show(personInPath, endPersonSessions)},
		{"POST", peoplePath + "/{person}/reset", writer, show(personInPath, resetPerson)},
		{"POST", peoplePath + "/{person}/remove", writer, show(personInPath, removePerson)},
		{"GET", aboutPath, reader, showAbout},
		{"POST", aboutPath, writer, examine},

		{"GET", signInPath, public, signInForm},
		{"POST", signInPath, public, signIn},
		{"POST", signOutPath, reader, signOut},
		{"POST", "/app/sign-out-everywhere", reader, signOutEverywhere},
		{"GET", linkPath + "{token}", public, linkForm},
		{"POST", linkPath + "{token}", public, redeemLink},
		{"GET", passwordPath, reader, passwordForm},
		{"POST", passwordPath, reader, choosePassword},
		{"GET", changePasswordPath, reader, changePasswordForm},
		{"POST", changePasswordPath, reader, changePassword},
	}, endpointRoutes(), leakRoutes(), fixtureRoutes(), operationRoutes(), replayRoutes())
}

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
		{"GET", alertsPath, reader, leadTo(alertHistoryPath)},
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

// endpointRoutes are the pages and actions of endpoints and their destinations.
func endpointRoutes() []route {
	return []route{
		{"GET", endpointsPath, reader, listEndpoints},
		{"GET", endpointsPath + "/new", writer, newEndpointForm},
		{"POST", endpointsPath + "/new", writer, submit(createEndpoint)},
		{"GET", endpointPath, reader, show(readEndpoint, showEndpoint)},
		{"GET", endpointPath + "/wait", reader, show(readEndpoint, waitForEvent)},
		{"POST", endpointPath + "/secret", writer, change(readEndpoint, saveSecret)},
		{"GET", endpointPath + "/settings", reader, show(readEndpoint, settingsForm.show)},
		{"POST", endpointPath + "/settings", writer, change(readEndpoint, settingsForm.save)},
		{"GET", endpointPath + "/retries", reader, show(readEndpoint, retriesForm.show)},
		{"POST", endpointPath + "/retries", writer, change(readEndpoint, retriesForm.save)},
		{"GET", workbenchPath, reader, show(readEndpoint, showWorkbench)},
		{"POST", workbenchPath, reader, change(readEndpoint, previewWorkbench)},
		{"POST", workbenchPath + "/save", writer, change(readEndpoint, saveWorkbench)},
		{"POST", endpointPath + "/pause", writer, act("PATCH "+endpointAPI, members{"paused": true}, endpointPath,
			"Paused. Events are stored and wait.")},
		{"POST", endpointPath + "/unpause", writer, act("PATCH "+endpointAPI, members{"paused": false}, endpointPath,
			"Unpaused. What waited is delivered now.")},
		{"POST", endpointPath + "/enable", writer, act("PATCH "+endpointAPI, members{"enabled": true}, endpointPath,
			"Enabled. Its ingest URL accepts requests.")},
		{"POST", endpointPath + "/test", writer, change(readEndpoint, testEndpoint)},
		{"POST", endpointPath + "/rotate-url", writer, change(readEndpoint, rotateURL)},
		{"POST", endpointPath + "/delete", writer, change(readEndpoint, deleteEndpoint)},
		{"GET", endpointPath + "/destinations/new", writer, show(readEndpoint, newDestinationForm)},
		{"POST", endpointPath + "/destinations/new", writer, change(readEndpoint, addDestination)},
		{"GET", destinationPath, reader, show(readDestination, showDestination)},
		{"POST", destinationPath, writer, change(readDestination, saveDestination)},
		{"POST", destinationPath + "/pause", writer, act("PATCH "+destinationAPI, members{"paused": true}, destinationPath,
			"Paused. Its deliveries wait.")},
		{"POST", destinationPath + "/unpause", writer, act("PATCH "+destinationAPI, members{"paused": false},
			destinationPath, "Unpaused. What waited is delivered now.")},
		{"POST", destinationPath + "/enable", writer, act("PATCH "+destinationAPI, members{"enabled": true},
			destinationPath, "Enabled. New events are delivered to it.")},
		{"POST", destinationPath + "/rotate", writer, change(readDestination, rotateSecret)},
		{"GET", destinationPath + "/purge", writer, show(readDestination, confirmPurge)},
		{"POST", destinationPath + "/purge", writer, change(readDestination, purgeDestination)},
		{"POST", destinationPath + "/remove", writer, change(readDestination, removeDestination)},
	}
}

// leakRoutes are the pages and actions of findings, log drains, applications, domains, tripwires and detection
// rules.
func leakRoutes() []route {
	return []route{
		{"GET", findingsPath, reader, listFindings},
		{"GET", findingPath, reader, show(readFinding, showFinding)},
		{"POST", findingPath, writer, submit(setStatus)},
		{"GET", drainsPath, reader, withNewForm(showDrains)},
		{"POST", drainsPath, writer, create("POST /v1/drains", newDrain, showDrains, "Drain created")},
		{"GET", drainPath, reader, show(readDrain, showDrain)},
		{"POST", drainPath, writer, change(readDrain, saveDrain)},
		{"POST", drainPath + "/pause", writer, act("PATCH "+drainAPI, members{"status": "paused"}, drainPath,
			"Paused. What arrives is dropped.")},
		{"POST", drainPath + "/unpause", writer, act("PATCH "+drainAPI, members{"status": "active"}, drainPath,
			"Unpaused. What arrives is scanned.")},
		{"POST", drainPath + "/rotate", writer, act("POST "+drainAPI+"/rotate", nil, drainPath,
			"Rotated. The previous URL works no more.")},
		{"POST", drainPath + "/delete", writer, act("DELETE "+drainAPI, nil, drainsPath, "Deleted. Its findings stay.")},
		{"GET", applicationsPath, reader, withNewForm(showApplications)},
		{"POST", applicationsPath, writer, create("POST /v1/dsns", newApplication, showApplications,
			"Application created")},
		{"GET", applicationPath, reader, show(readDSN, showApplication)},
		{"POST", applicationPath, writer, change(readDSN, saveApplication)},
		{"POST", applicationPath + "/rotate", writer, act("POST "+dsnAPI+"/rotate", nil, applicationPath,
			"Rotated. Reports with the previous DSN are refused.")},
		{"POST", applicationPath + "/delete", writer, act("DELETE "+dsnAPI, nil, applicationsPath,
			"Deleted. Its findings stay.")},
		{"GET", domainsPath, reader, withNewForm(showDomains)},
		{"POST", domainsPath, writer, create("POST /v1/domains", newDomain, showDomains, "Domain added")},
		{"GET", domainPath, reader, show(readDomain, showDomain)},
		{"POST", domainPath + "/verify", writer, submit(verifyDomain)},
		{"POST", domainPath + "/delete", writer, act("DELETE "+domainAPI, nil, domainsPath, "Deleted.")},
		{"POST", domainPath + "/scan", writer, create("POST /v1/scans", newScan, nil, "Scan started")},
		{"POST", domainPath + "/tripwires", writer, change(readDomain, createTripwire)},
		{"GET", tripwirePath, reader, show(readTripwire, showTripwire)},
		{"POST", tripwirePath + "/rotate", writer, change(readTripwire, rotateTripwire)},
		{"POST", tripwirePath + "/test", writer, act("POST "+tripwireAPI+"/test", nil, tripwirePath,
			"Touch it now: the next use from your address within ten minutes is a test.")},
		{"POST", tripwirePath + "/delete", writer, change(readTripwire, deleteTripwire)},
		{"GET", scansPath, reader, listScans},
		{"GET", scanPath, reader, show(thing[scanData]("/v1/scans/{scan}"), showScan)},
		{"GET", detectionPath, reader, show(readDetection, showDetection)},
		{"POST", detectionPath, writer, change(readDetection, saveRule)},
		{"POST", detectionPath + "/remove", writer, change(readDetection, removeRule)},
		{"POST", detectionPath + "/try", writer, change(readDetection, tryLine)},
	}
}
