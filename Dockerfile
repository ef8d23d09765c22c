# Images of the relay.
#
#   docker build --target relay .       relay serve, migrate and the operator's commands; x86-64 and arm64
#   docker build --target relay-dev .   relay dev and relay engine too, with the embedded ClickHouse; x86-64
#
# The program is linked to glibc, so BASE_IMAGE must have it; nothing else of it is used. It runs as user 65532 and
# writes to /var/lib/relay alone: the root file system may be read-only.
ARG GO_IMAGE=golang:1.26-bookworm
ARG NODE_IMAGE=node:22-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

# The package of the SDK, embedded in the program.
FROM ${NODE_IMAGE} AS sdk
WORKDIR /src
COPY tools/sdk tools/sdk
COPY sdk sdk
COPY LICENSE VERSION ./
RUN tools/sdk/build.sh

FROM ${GO_IMAGE} AS build
ARG COMMIT=
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=sdk /src/sdk/bin sdk/bin
RUN COMMIT="${COMMIT}" GOARCH="${TARGETARCH:-$(go env GOARCH)}" tools/release/build.sh /out/relay && mkdir -m 700 /out/data

FROM ${BASE_IMAGE} AS relay
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/relay /usr/local/bin/relay
COPY --from=build --chown=65532:65532 /out/data /var/lib/relay
ENV RELAY_DATA_DIR=/var/lib/relay RELAY_LISTEN=0.0.0.0:8080
USER 65532:65532
VOLUME /var/lib/relay
EXPOSE 8080
# SIGTERM drains: a stop takes up to 35 s, so give the container more than that (docker stop --time 40).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=6s --start-period=60s --retries=3 CMD ["/usr/local/bin/relay", "ready"]
ENTRYPOINT ["/usr/local/bin/relay"]
CMD ["serve"]

FROM ${NODE_IMAGE} AS chdb
WORKDIR /src
COPY tools/chdb tools/chdb
RUN tools/chdb/fetch.sh

FROM relay AS relay-dev
COPY --from=chdb /src/bin/lib/libchdb.so /usr/local/bin/lib/libchdb.so
CMD ["dev"]
