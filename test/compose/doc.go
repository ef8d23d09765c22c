// Package compose brings docker-compose.yml up (make torture PART=compose); package command checks what it names.
package compose
