// Package compose brings docker-compose.yml up (make torture PART=compose), and the Helm chart on
// Kubernetes (PART=kubernetes); package command checks what it names.
package compose
