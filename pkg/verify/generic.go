package verify

// Generic is the provider of which nothing is known.
const Generic = "generic"

var generic = Scheme{Name: Generic, Sample: plainSample}
