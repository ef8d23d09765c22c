package node

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateFile is a PEM file that a setting names.
type certificateFile struct {
	setting, path string
	roots         bool // certificates to trust; otherwise the node's own one with its chain
}

// certificateFiles are the files with certificates that this node uses.
func (s Config) certificateFiles() (files []certificateFile) {
	add := func(setting, path string, roots bool) {
		if path != "" && path != "system" {
			files = append(files, certificateFile{setting, path, roots})
		}
	}
	add("RELAY_TLS_CERT_FILE", s.TLSCertFile, false)
	for _, host := range s.ACMEHosts {
		add("RELAY_ACME_HOSTS "+host, filepath.Join(s.DataDir, acmeDir, host), false)
	}
	add("RELAY_KAFKA_TLS", s.KafkaTLS, true)
	add("RELAY_KAFKA_CERT_FILE", s.KafkaCertFile, false)
	add("RELAY_REDIS_CA_FILE", s.RedisCAFile, true)
	add("RELAY_REDIS_CERT_FILE", s.RedisCertFile, false)
	add("RELAY_EGRESS_CA_FILE", s.EgressCAFile, true)
	return files
}

// servedCertificate is the file with the certificate that HTTPS serves, or the first of them; empty without HTTPS.
func (s Config) servedCertificate() string {
	if len(s.ACMEHosts) > 0 {
		return filepath.Join(s.DataDir, acmeDir, s.ACMEHosts[0])
	}
	return s.TLSCertFile
}

// certificateExpiry is a collector that reads the files at each scrape, because they are replaced while nodes run.
type certificateExpiry []certificateFile

var certificateExpiryDesc = prometheus.NewDesc("relay_certificate_expiry_timestamp_seconds",
	"When the certificates in the file of this setting expire: of a chain the first, of roots the last. 0 if none can be "+
		"read.", []string{"setting"}, nil)

// Describe implements prometheus.Collector.
func (c certificateExpiry) Describe(out chan<- *prometheus.Desc) { out <- certificateExpiryDesc }

// Collect implements prometheus.Collector.
func (c certificateExpiry) Collect(out chan<- prometheus.Metric) {
	for _, file := range c {
		seconds := 0.0
		if at, err := file.expiry(); err == nil {
			seconds = float64(at.Unix())
		}
		out <- prometheus.MustNewConstMetric(certificateExpiryDesc, prometheus.GaugeValue, seconds, file.setting)
	}
}

// expiry returns when a chain can no longer be used, which is when its first certificate expires. Of roots any that is
// valid may do: a file has the old and the new one while they are exchanged.
func (f certificateFile) expiry() (at time.Time, err error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return at, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // a key in the same file
		}
		if end := certificate.NotAfter; at.IsZero() || f.roots && end.After(at) || !f.roots && end.Before(at) {
			at = end
		}
	}
	if at.IsZero() {
		return at, errors.New("the file has no certificate")
	}
	return at, nil
}
