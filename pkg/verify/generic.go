package verify

// Generic is the provider of endpoints without a known provider. It has no signature.
const Generic = "generic"

var generic = Scheme{Name: Generic, Title: "a generic provider", Sample: plainSample}
