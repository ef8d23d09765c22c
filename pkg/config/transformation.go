package config

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/transform"
)

// Bounds of the versions of the transformations that an endpoint and its destinations keep, together.
const (
	// MaxTransformationVersions is of one; maxVersions of all, which share it.
	MaxTransformationVersions = 50
	maxVersions               = 200
	// MaxEarlierOpsBytes bounds the operations of all versions but the newest, as JSON: an endpoint must stay far below
	// conflog.MaxEntityBytes. The oldest lose theirs first, and then only say when and by whom they were made.
	MaxEarlierOpsBytes = transform.MaxOpsBytes
)

// Transforms reports whether it has operations.
func (t *Transformation) Transforms() bool { return t != nil && len(t.Ops) > 0 }

// Number returns the version, 0 if there never was one.
func (t *Transformation) Number() int {
	if t == nil {
		return 0
	}
	return t.Version
}

// TransformationOf returns the transformation of the deliveries of a destination, and the id of the destination or
// endpoint that has it; nil: there never was one.
func (e *Endpoint) TransformationOf(dest string) (t *Transformation, owner string) {
	if d := e.Destination(dest); d != nil && d.OwnTransformation() != nil {
		return d.Transformation, d.ID
	}
	return e.Transformation, e.ID
}

// OwnTransformation returns what is in place of the endpoint's transformation; nil: nothing is.
func (d *Destination) OwnTransformation() *Transformation {
	if d.Transformation == nil || d.Transformation.Inherits {
		return nil
	}
	return d.Transformation
}

// SetTransformation replaces the operations of the endpoint and counts a version, unless they are the same. None ends
// the transformation. by and name are the id and the name of who changes them.
func (e *Endpoint) SetTransformation(ops []transform.Op, at time.Time, by, name string) {
	if e.Transformation.Transforms() || len(ops) > 0 {
		e.Transformation = e.Transformation.next(ops, TransformationVersion{At: at, By: by, Name: name})
		e.trimTransformations()
	}
}

// SetTransformation is as that of an endpoint. None leave bodies as they are stored, unless the destination inherits:
// then it has the endpoint's.
func (d *Destination) SetTransformation(ops []transform.Op, inherits bool, at time.Time, by, name string) {
	if d.Transformation != nil || !inherits {
		d.Transformation = d.Transformation.next(ops,
			TransformationVersion{At: at, By: by, Name: name, Inherits: inherits})
	}
}

// next returns t with another version, or t if that changes nothing.
func (t *Transformation) next(ops []transform.Op, v TransformationVersion) *Transformation {
	var now Transformation
	if t != nil {
		now = *t
		same := len(ops) == 0 && len(now.Ops) == 0 || len(ops) > 0 && entity.SameJSON(ops, now.Ops)
		if same && v.Inherits == now.Inherits {
			return t
		}
	}
	now.Versions = slices.Clone(now.Versions)
	if len(now.Versions) > 0 {
		now.Versions[0].Ops = now.Ops
	}
	now.Version++
	now.Ops, now.Inherits = nil, v.Inherits
	for _, op := range ops {
		now.Ops = append(now.Ops, op.Clone())
	}
	v.Version, v.Operations = now.Version, len(ops)
	now.Versions = slices.Insert(now.Versions, 0, v)
	return &now
}

// trimTransformations drops old versions, and operations of old ones, of the endpoint and its destinations.
func (e *Endpoint) trimTransformations() {
	all := []**Transformation{&e.Transformation}
	for i := range e.Destinations {
		all = append(all, &e.Destinations[i].Transformation)
	}
	all = slices.DeleteFunc(all, func(t **Transformation) bool { return *t == nil })
	for _, t := range all {
		now := **t
		most := min(MaxTransformationVersions, maxVersions/len(all), len(now.Versions))
		now.Versions = slices.Clone(now.Versions[:most])
		dropOldOps(now.Versions, MaxEarlierOpsBytes/len(all))
		*t = &now
	}
}

func dropOldOps(versions []TransformationVersion, most int) {
	size := 0
	for i := range versions {
		v := &versions[i]
		if len(v.Ops) == 0 {
			continue
		}
		if text, err := json.Marshal(v.Ops); err != nil {
			size = most + 1 // it cannot be stored either
		} else {
			size += len(text)
		}
		if size > most {
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
