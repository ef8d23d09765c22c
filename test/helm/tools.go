//go:build tools

// Package helm: the modules whose documents openapi_test.go reads stay in go.mod.
package helm

import (
	_ "k8s.io/kubectl/pkg/util/openapi"
	_ "sigs.k8s.io/kustomize/kyaml/openapi"
)
