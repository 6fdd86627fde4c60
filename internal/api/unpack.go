package api

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"
)

var errUnpacked = errors.New("its unpacked form is too long")

// unpacking bounds what is unpacked of a request. Connect reads a message that is too long to its end, to tell its length: half a
// megabyte of gzip is half a gigabyte of zeros, a second of a core.
func unpacking(limit int) connect.HandlerOption {
	return connect.WithCompression("gzip",
		func() connect.Decompressor { return &unpacker{limit: limit} },
		func() connect.Compressor { return gzip.NewWriter(nil) })
}

// unpacker unpacks one byte more than limit, by which Connect sees that the message is too long.
type unpacker struct {
	gzip.Reader

	limit, left int
}

func (u *unpacker) Reset(r io.Reader) error {
	u.left = u.limit + 1
	return u.Reader.Reset(r)
}

func (u *unpacker) Read(p []byte) (int, error) {
	if u.left == 0 {
		return 0, errUnpacked
	}
	n, err := u.Reader.Read(p[:min(len(p), u.left)])
	u.left -= n
	return n, err
}
