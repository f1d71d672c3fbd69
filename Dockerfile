# The image of holdfast: the program, the certificates of public authorities, and nothing else. There is no shell and no
# other command, so it is for the commands that need none (exporter, ui, ls, doctor), and to copy the program from:
#   COPY --from=holdfast /holdfast /usr/bin/holdfast
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git, from which Go stamps the version.
COPY . .
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w" -o /out/holdfast ./cmd/holdfast
RUN go run ./internal/packaging /out/share

FROM scratch
# As old as the image: for stores with TLS whose certificates are from a public authority. For your own authority mount
# its certificate, and name it in the URL (ca=FILE) or by SSL_CERT_FILE.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /out/share/THIRD-PARTY-LICENSES /licenses/
COPY --from=build /out/holdfast /holdfast
# A number, since there is no /etc/passwd, and since Kubernetes checks runAsNonRoot by it.
USER 65532:65532
ENTRYPOINT ["/holdfast"]
