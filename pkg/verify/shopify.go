package verify

import (
	"fmt"
	"time"
)

// Shopify is the name of the provider Shopify and of its verification type.
const Shopify = "shopify"

var shopify = Scheme{
	Name: Shopify, Title: "Shopify", TypeSource: "header:X-Shopify-Topic", check: checkShopify, sign: signShopify,
	layout:            shopifyLayout,
	secretsOfOtherUse: map[string]string{"shpat_": "an access token", "shpca_": "an access token"},
	Sample: Sample{
		Type: "orders/create", UserAgent: "Shopify-Captain-Hook", ContentType: jsonType, Body: shopifySample,
		Header: func(x SampleValues) map[string]string {
			return map[string]string{
				"X-Shopify-Topic": x.Type, "X-Shopify-Webhook-Id": x.ID, "X-Shopify-Event-Id": x.ID,
				"X-Shopify-Shop-Domain": "sample.myshopify.com", "X-Shopify-Api-Version": "2026-07",
				"X-Shopify-Triggered-At": x.iso(), "X-Shopify-Test": "true",
			}
		},
	},
}

const shopifyHeader = "X-Shopify-Hmac-Sha256"

// checkShopify reads `X-Shopify-Hmac-Sha256: <base64>`, HMAC-SHA256 of the body, keyed with the app's client secret.
func checkShopify(c Config, r Request) (time.Time, Reason) {
	return time.Time{}, checkBodySignature(c, r, shopifyHeader, "", base64SHA256())
}

func shopifyLayout(Config, Request) layout {
	return layout{header: shopifyHeader, form: base64SHA256()}
}

func signShopify(c Config, r Request, _ string) error {
	setHeader(r, shopifyHeader, base64SHA256().sign(c, message{body: r.Body}))
	return nil
}

func shopifySample(x SampleValues) string {
	return fmt.Sprintf(`{"id":%d,"admin_graphql_api_id":"gid://shopify/Order/%s","name":"#1001","test":true,`+
		`"created_at":%q,`+
		`"currency":"EUR","total_price":"42.00","financial_status":"paid","customer":null,`+
		`"line_items":[{"id":1,"sku":"SAMPLE-1","title":"Sample","quantity":1,"price":"42.00"}]}`, x.At.UnixMilli(),
		x.ID, x.iso())
}
