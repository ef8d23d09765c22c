package dashboard

// endpointRoutes are the pages and actions of endpoints and their destinations.
func endpointRoutes() []route {
	return []route{
		{"GET", endpointsPath, reader, (*visit).listEndpoints},
		{"GET", endpointsPath + "/new", writer, (*visit).newEndpointForm},
		{"POST", endpointsPath + "/new", writer, (*visit).createEndpoint},
		{"GET", endpointPath, reader, (*visit).showEndpoint},
		{"GET", endpointPath + "/wait", reader, (*visit).waitForEvent},
		{"POST", endpointPath + "/secret", writer, (*visit).saveSecret},
		{"GET", endpointPath + "/settings", reader, (*visit).settingsForm},
		{"POST", endpointPath + "/settings", writer, (*visit).saveSettings},
		{"GET", endpointPath + "/retries", reader, (*visit).retriesForm},
		{"POST", endpointPath + "/retries", writer, (*visit).saveRetries},
		{"POST", endpointPath + "/pause", writer, (*visit).pauseEndpoint},
		{"POST", endpointPath + "/unpause", writer, (*visit).unpauseEndpoint},
		{"POST", endpointPath + "/enable", writer, (*visit).enableEndpoint},
		{"POST", endpointPath + "/test", writer, (*visit).testEndpoint},
		{"POST", endpointPath + "/rotate-url", writer, (*visit).rotateURL},
		{"POST", endpointPath + "/delete", writer, (*visit).deleteEndpoint},
		{"GET", endpointPath + "/destinations/new", writer, (*visit).newDestinationForm},
		{"POST", endpointPath + "/destinations/new", writer, (*visit).addDestination},
		{"GET", destinationPath, reader, (*visit).showDestination},
		{"POST", destinationPath, writer, (*visit).saveDestination},
		{"POST", destinationPath + "/pause", writer, (*visit).pauseDestination},
		{"POST", destinationPath + "/unpause", writer, (*visit).unpauseDestination},
		{"POST", destinationPath + "/enable", writer, (*visit).enableDestination},
		{"POST", destinationPath + "/rotate", writer, (*visit).rotateSecret},
		{"POST", destinationPath + "/purge", writer, (*visit).purgeDestination},
		{"POST", destinationPath + "/remove", writer, (*visit).removeDestination},
	}
}
