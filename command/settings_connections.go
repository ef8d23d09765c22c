package command

import (
	"crypto/tls"
	"log/slog"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/store/schema"
)

// validateConnections reports credentials, keys, addresses and certificate files that cannot be used. It connects to
// nothing.
func (s settings) validateConnections(fault faultFunc) {
	if s.MasterKeys != "" {
		if _, err := seal.NewKeyring(s.MasterKeys); err != nil {
			fault("RELAY_MASTER_KEYS", "%w", err)
		}
	}
	kafka := s.Stream()
	kafka.Brokers = []string{"localhost:9092"} // whether there are brokers is validated apart
	kafka.TLS, kafka.CertFile, kafka.KeyFile = "", "", ""
	if err := kafka.Validate(); err != nil {
		fault("RELAY_KAFKA_SASL", "%w", err)
	}
	kafka.SASL, kafka.TLS = "", s.KafkaTLS
	if err := kafka.Validate(); err != nil {
		fault("RELAY_KAFKA_TLS", "%w", err)
	} else {
		kafka.CertFile, kafka.KeyFile = s.KafkaCertFile, s.KafkaKeyFile
		if err := kafka.Validate(); err != nil {
			fault("RELAY_KAFKA_CERT_FILE", "%w", err)
		}
	}
	redis := s.Limit()
	redis.CAFile, redis.CertFile, redis.KeyFile = "", "", ""
	if err := redis.Validate(); err != nil {
		fault("RELAY_REDIS_URL", "%w", err)
	} else {
		redis.CAFile = s.RedisCAFile
		if err := redis.Validate(); err != nil {
			fault("RELAY_REDIS_CA_FILE", "%w", err)
		}
		redis.CAFile, redis.CertFile, redis.KeyFile = "", s.RedisCertFile, s.RedisKeyFile
		if err := redis.Validate(); err != nil {
			fault("RELAY_REDIS_CERT_FILE", "%w", err)
		}
	}
	for env, text := range map[string]string{
		"RELAY_CLICKHOUSE_URL": s.ClickHouseURL, "RELAY_READ_URL": s.ReadURL, "RELAY_SEARCH_URL": s.SearchURL} {
		if text == "" {
			continue
		}
		if err := (schema.Config{URL: text, RetentionDays: 1}).Validate(); err != nil {
			fault(env, "%w", err)
		}
	}
	if s.TLSCertFile != "" && s.TLSKeyFile != "" {
		if _, err := tls.LoadX509KeyPair(s.TLSCertFile, s.TLSKeyFile); err != nil {
			fault("RELAY_TLS_CERT_FILE", "cannot be used with RELAY_TLS_KEY_FILE: %w", err)
		}
	}
	if _, err := egress.NewOperatorDialer(s.EgressCAFile, ""); err != nil {
		fault("RELAY_EGRESS_CA_FILE", "%w", err)
	}
	if _, err := egress.NewResolver(s.DNSServer); err != nil {
		fault("RELAY_DNS_SERVER", "%w", err)
	}
	if env, err := s.Traces().Validate(); err != nil {
		fault(env, "%w", err)
	}
	if env, err := s.OTLP().Validate(); err != nil {
		fault(env, "%w", err)
	}
	if env, err := s.OIDC(s.BaseURL).Validate(); err != nil {
		fault(env, "%w", err)
	}
	if err := new(slog.Level).UnmarshalText([]byte(s.LogLevel)); err != nil {
		fault("RELAY_LOG_LEVEL", "%q is none of debug, info, warn, error", s.LogLevel)
	}
	if s.LogFormat != "" && s.LogFormat != logText && s.LogFormat != logJSON {
		fault("RELAY_LOG_FORMAT", "%q is neither %s nor %s", s.LogFormat, logText, logJSON)
	}
}
