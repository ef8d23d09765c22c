package control

// User is somebody who may sign in to the dashboard.
type User struct {
	Meta
	Email string `json:"email"`
}
