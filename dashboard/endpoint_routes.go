package dashboard

// endpointRoutes are the pages and actions of endpoints and their destinations.
func endpointRoutes() []route {
	return []route{
		{"GET", endpointsPath, reader, listEndpoints},
		{"GET", endpointsPath + "/new", writer, newEndpointForm},
		{"POST", endpointsPath + "/new", writer, createEndpoint},
		{"GET", endpointPath, reader, showEndpoint},
		{"GET", endpointPath + "/wait", reader, waitForEvent},
		{"POST", endpointPath + "/secret", writer, saveSecret},
		{"GET", endpointPath + "/settings", reader, settingsForm},
		{"POST", endpointPath + "/settings", writer, saveSettings},
		{"GET", endpointPath + "/retries", reader, retriesForm},
		{"POST", endpointPath + "/retries", writer, saveRetries},
		{"GET", workbenchPath, reader, showWorkbench},
		{"POST", workbenchPath, reader, previewWorkbench},
		{"POST", workbenchPath + "/save", writer, saveWorkbench},
		{"POST", endpointPath + "/pause", writer, pauseEndpoint},
		{"POST", endpointPath + "/unpause", writer, unpauseEndpoint},
		{"POST", endpointPath + "/enable", writer, enableEndpoint},
		{"POST", endpointPath + "/test", writer, testEndpoint},
		{"POST", endpointPath + "/rotate-url", writer, rotateURL},
		{"POST", endpointPath + "/delete", writer, deleteEndpoint},
		{"GET", endpointPath + "/destinations/new", writer, newDestinationForm},
		{"POST", endpointPath + "/destinations/new", writer, addDestination},
		{"GET", destinationPath, reader, showDestination},
		{"POST", destinationPath, writer, saveDestination},
		{"POST", destinationPath + "/pause", writer, pauseDestination},
		{"POST", destinationPath + "/unpause", writer, unpauseDestination},
		{"POST", destinationPath + "/enable", writer, enableDestination},
		{"POST", destinationPath + "/rotate", writer, rotateSecret},
		{"GET", destinationPath + "/purge", writer, confirmPurge},
		{"POST", destinationPath + "/purge", writer, purgeDestination},
		{"POST", destinationPath + "/remove", writer, removeDestination},
	}
}
