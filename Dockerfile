# One image with all binaries; the command picks one.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# With .git: Go stamps version and commit into the commands.
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/ ./cmd/...

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ /usr/local/bin/
COPY configs/ /configs/
# By its number: Kubernetes can't tell whether a name is root's.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/local/bin/duetime"]
