package verify

import "fmt"

// Generic is the provider of which nothing is known.
const Generic = "generic"

var generic = Scheme{Name: Generic, Sample: plainSample}

// plainSample is the sample of providers that may send anything.
var plainSample = Sample{
	Type: "sample.created", UserAgent: "webhook-sample/1", ContentType: jsonType,
	Body: func(x Sampling) string {
		return fmt.Sprintf(`{"id":"sample_%s","type":%q,"created_at":%q,"data":{"sample":true,"amount":4200}}`,
			x.ID, x.Type, x.iso())
	},
}
