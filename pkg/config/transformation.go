package config

import (
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/transform"
)

// MaxTransformationVersions is how many versions of a transformation say when and by whom they were made.
const MaxTransformationVersions = 20

// Transformation changes the bodies of an endpoint's deliveries. The endpoint keeps it when it has no operations any
// more, so that versions are never counted twice.
type Transformation struct {
	Version int            `json:"version"`       // counts changes
	Ops     []transform.Op `json:"ops,omitempty"` // none: bodies are delivered as they are stored
	// Versions has the newest MaxTransformationVersions, newest first.
	Versions []TransformationVersion `json:"versions,omitempty"`
}

// TransformationVersion says when and by whom a version was made, and how many operations it has.
type TransformationVersion struct {
	Version    int       `json:"version"`
	At         time.Time `json:"at"`
	By         string    `json:"by"`             // id of the key or user
	Name       string    `json:"name,omitempty"` // of the key or user, then
	Operations int       `json:"operations"`
}

// Transforms reports whether deliveries of the endpoint have another body than the stored one.
func (e *Endpoint) Transforms() bool { return e.Transformation != nil && len(e.Transformation.Ops) > 0 }

// TransformationVersion returns the version of the transformation, 0 if the endpoint never had one.
func (e *Endpoint) TransformationVersion() int {
	if e.Transformation == nil {
		return 0
	}
	return e.Transformation.Version
}

// SetTransformation replaces the operations and counts a version, unless they are the same. None ends the
// transformation. by and name are the id and the name of who changes them.
func (e *Endpoint) SetTransformation(ops []transform.Op, at time.Time, by, name string) {
	var now Transformation
	if e.Transformation != nil {
		now = *e.Transformation
	}
	if len(ops) == 0 && len(now.Ops) == 0 || len(ops) > 0 && sameJSON(ops, now.Ops) {
		return
	}
	now.Version++
	now.Ops = nil
	for _, op := range ops {
		now.Ops = append(now.Ops, op.Clone())
	}
	now.Versions = slices.Insert(slices.Clone(now.Versions), 0, TransformationVersion{
		Version: now.Version, At: at, By: by, Name: name, Operations: len(ops),
	})
	now.Versions = now.Versions[:min(len(now.Versions), MaxTransformationVersions)]
	e.Transformation = &now
}
