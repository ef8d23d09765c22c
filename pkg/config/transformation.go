package config

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/transform"
)

// Bounds of the versions of a transformation that an endpoint keeps.
const (
	MaxTransformationVersions = 50
	// MaxEarlierOpsBytes bounds the operations of all versions but the newest, as JSON: an endpoint must stay far below
	// conflog.MaxEntityBytes. The oldest lose theirs first, and then only say when and by whom they were made.
	MaxEarlierOpsBytes = transform.MaxOpsBytes
)

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
	if len(ops) == 0 && len(now.Ops) == 0 || len(ops) > 0 && entity.SameJSON(ops, now.Ops) {
		return
	}
	now.Versions = slices.Clone(now.Versions)
	if len(now.Versions) > 0 {
		now.Versions[0].Ops = now.Ops
	}
	now.Version++
	now.Ops = nil
	for _, op := range ops {
		now.Ops = append(now.Ops, op.Clone())
	}
	now.Versions = slices.Insert(now.Versions, 0, TransformationVersion{
		Version: now.Version, At: at, By: by, Name: name, Operations: len(ops),
	})
	now.Versions = now.Versions[:min(len(now.Versions), MaxTransformationVersions)]
	dropOldOps(now.Versions)
	e.Transformation = &now
}

func dropOldOps(versions []TransformationVersion) {
	size := 0
	for i := range versions {
		v := &versions[i]
		if len(v.Ops) == 0 {
			continue
		}
		if text, err := json.Marshal(v.Ops); err != nil {
			size = MaxEarlierOpsBytes + 1 // it cannot be stored either
		} else {
			size += len(text)
		}
		if size > MaxEarlierOpsBytes {
			v.Ops = nil
		}
	}
}

// OpsOf returns the operations of a version. It returns false if the endpoint has no such version, or keeps only when
// and by whom it was made.
func (t *Transformation) OpsOf(version int) ([]transform.Op, bool) {
	if t == nil {
		return nil, false
	}
	if version == t.Version {
		return t.Ops, true
	}
	for i := range t.Versions {
		if v := &t.Versions[i]; v.Version == version {
			return v.Ops, len(v.Ops) == v.Operations
		}
	}
	return nil, false
}

// VersionAt returns the version that was in force at a time; 0 if there was none, or if it is not kept.
func (t *Transformation) VersionAt(at time.Time) int {
	if t != nil {
		for i := range t.Versions {
			if !t.Versions[i].At.After(at) {
				return t.Versions[i].Version
			}
		}
	}
	return 0
}
