// Package bucket keeps backups in a bucket of an S3-compatible object store.
//
// Begin with Open. Upload writes the manifest last, as package archive does: a prefix without one has no backup. The
// addresses come from the operator's command line and environment, so the checks of URLs that customers set do not
// apply.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/features/backup/archive"
	"github.com/eventrelay/relay/pkg/private"
)

// Scheme begins the address of a backup in a bucket.
const Scheme = "s3://"

const (
	parallel  = 4       // files at a time
	maxCopy   = 5 << 30 // bytes: the store copies larger objects in parts only
	cleanTime = time.Minute
)

// Bucket is one backup in a bucket.
type Bucket struct {
	client       *minio.Client
	name, prefix string
}

// Open returns the backup at s3://BUCKET/PREFIX. The variables of the AWS command line name the credentials, the region
// and, for stores other than AWS, the endpoint.
func Open(address string, getenv func(string) string) (*Bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(address, Scheme), "/")
	prefix = strings.Trim(prefix, "/")
	if name == "" || prefix == "" {
		return nil, fmt.Errorf("%s must be s3://BUCKET/PREFIX", address)
	}
	key, secret := getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY")
	if key == "" || secret == "" {
		return nil, errors.New("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to reach the bucket")
	}
	endpoint := cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("AWS_ENDPOINT_URL must be https://HOST, without a path")
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.Proxy = nil // as for all connections of the relay
	client, err := minio.New(u.Host, &minio.Options{
		Transport: transport,
		Creds:     credentials.NewStaticV4(key, secret, getenv("AWS_SESSION_TOKEN")),
		Secure:    u.Scheme == "https", Region: cmp.Or(getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION")),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return &Bucket{client: client, name: name, prefix: prefix}, nil
}

// String returns the address.
func (b *Bucket) String() string { return Scheme + b.name + "/" + b.prefix }

func (b *Bucket) object(path string) string { return b.prefix + "/" + path }

// CheckEmpty returns an error if the prefix has objects.
func (b *Bucket) CheckEmpty(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, found := <-b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{
		Prefix: b.object(""), Recursive: true, MaxKeys: 1})
	switch {
	case first.Err != nil:
		return fmt.Errorf("list %s: %w", b, first.Err)
	case found:
		return fmt.Errorf("%s is not empty; name a new prefix, or remove an interrupted backup there", b)
	}
	return nil
}

// Manifest returns the manifest of the backup.
func (b *Bucket) Manifest(ctx context.Context) (m archive.Manifest, err error) {
	var text bytes.Buffer
	if err = b.read(ctx, archive.ManifestFile, &text); minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return m, archive.NoManifestError(b.String())
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", b, err)
	}
	return archive.ParseManifest(b.String(), text.Bytes())
}

// Upload stores the backup of a directory, and returns how many bytes were sent. The object store itself copies what
// the previous backup has too, unless that is nil: no backup needs another one. After an error nothing is left.
func (b *Bucket) Upload(ctx context.Context, dir string, previous *Bucket) (sent int64, err error) {
	m, err := archive.ReadManifest(dir)
	if err != nil {
		return 0, err
	}
	type content struct {
		size   int64
		sha256 string
	}
	had := make(map[content]string)
	if previous != nil {
		before, err := previous.Manifest(ctx)
		if err != nil {
			return 0, err
		}
		for _, f := range before.Files {
			had[content{f.Size, f.SHA256}] = f.Path
		}
	}
	if err := b.CheckEmpty(ctx); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.remove(context.WithoutCancel(ctx), m))
		}
	}()
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		from, copied := had[content{f.Size, f.SHA256}]
		if !copied {
			sent += f.Size
		}
		group.Go(func() error {
			if copied {
				return b.copyFrom(running, previous, from, f)
			}
			return b.send(running, dir, f.Path)
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return sent, b.send(ctx, dir, archive.ManifestFile)
}

func (b *Bucket) send(ctx context.Context, dir, path string) error {
	_, err := b.client.FPutObject(ctx, b.name, b.object(path), filepath.Join(dir, path), minio.PutObjectOptions{})
	if err != nil {
		return fmt.Errorf("upload %s to %s: %w", path, b, err)
	}
	return nil
}

func (b *Bucket) copyFrom(ctx context.Context, previous *Bucket, path string, f archive.File) (err error) {
	to := minio.CopyDestOptions{Bucket: b.name, Object: b.object(f.Path)}
	from := minio.CopySrcOptions{Bucket: previous.name, Object: previous.object(path)}
	if f.Size < maxCopy {
		_, err = b.client.CopyObject(ctx, to, from)
	} else {
		_, err = b.client.ComposeObject(ctx, to, from)
	}
	if err != nil {
		return fmt.Errorf("copy %s of %s to %s: %w", path, previous, b, err)
	}
	return nil
}

// remove deletes the objects of an upload that failed.
func (b *Bucket) remove(ctx context.Context, m archive.Manifest) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	for _, path := range append(m.Files, archive.File{Path: archive.ManifestFile}) {
		if err := b.client.RemoveObject(ctx, b.name, b.object(path.Path), minio.RemoveObjectOptions{}); err != nil {
			return fmt.Errorf("%s has a part of a backup: remove it: %w", b, err)
		}
	}
	return nil
}

// Download writes the backup into a directory.
func (b *Bucket) Download(ctx context.Context, dir string) error {
	m, err := b.Manifest(ctx)
	if err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range append(m.Files, archive.File{Path: archive.ManifestFile}) {
		group.Go(func() error {
			to := filepath.Join(dir, f.Path)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return err
			}
			err := private.WriteFile(to, func(w io.Writer) error { return b.read(running, f.Path, w) })
			if err != nil {
				return fmt.Errorf("download %s of %s: %w", f.Path, b, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (b *Bucket) read(ctx context.Context, path string, to io.Writer) error {
	o, err := b.client.GetObject(ctx, b.name, b.object(path), minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer o.Close()
	_, err = io.Copy(to, o)
	return err
}
