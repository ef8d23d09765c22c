package control

// User is somebody who may sign in to the dashboard.
type User struct {
	Meta
	Email string `json:"email"`
	// FromEnvironment marks the first one, whom a node has made at its start.
	FromEnvironment bool `json:"from_environment,omitempty"`
}
