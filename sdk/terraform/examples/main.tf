terraform {
  required_providers {
    eventrelay = {
      source = "eventrelay/eventrelay"
    }
  }
}

# RELAY_BASE_URL and RELAY_API_KEY say where the relay is and with which key.
provider "eventrelay" {}

resource "eventrelay_tenant" "acme" {
  tenant = "acme"
  name   = "Acme Ltd"
  limits = { endpoints = 5 }
}

resource "eventrelay_endpoint" "orders" {
  name     = "orders"
  tenant   = eventrelay_tenant.acme.tenant
  validate = "warn"

  retry_policy = {
    strategy         = "schedule"
    schedule_seconds = [5, 60, 600]
  }
  destination = {
    url        = "https://shop.example.com/hooks"
    rate_limit = { per_second = 20 }
    filter     = { types = ["order.*"] }
  }
}

resource "eventrelay_destination" "archive" {
  endpoint_id = eventrelay_endpoint.orders.id
  url         = "https://archive.example.com/hooks"
}

resource "eventrelay_event_type" "order_paid" {
  name   = "order.paid"
  group  = "Orders"
  schema = jsonencode({ type = "object", required = ["total"] })
}

resource "eventrelay_tenant_key" "backend" {
  tenant = eventrelay_tenant.acme.tenant
  name   = "backend"
  scope  = "read_write"
}

resource "eventrelay_alert_settings" "account" {
  rules = {
    usage = { percent = [80, 100] }
  }
}

output "ingest_url" {
  value     = eventrelay_endpoint.orders.ingest_url
  sensitive = true
}
