package verify

// github reads `X-Hub-Signature-256: sha256=<hex>`, HMAC-SHA256 of the body. GitHub still sends the older `X-Hub-Signature`
// (SHA-1) beside it; that one alone counts as missing.
func github(c Config, r Request) Reason {
	return bodySignature(c, r, "X-Hub-Signature-256", "sha256=", hexSHA256())
}
