package remotecluster

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

const (
	frameHeader = 8
	// maxData is how much of a data frame the library gets at once, which reads each frame whole and queues 255 of
	// them: a frame may have 16 MiB. It is what Kubernetes' own servers send at once.
	maxData = 32 << 10
	// maxControl is how long a control frame may be. Its headers are compressed, a thousand to one at best.
	maxControl = 512
	// flagFinal is that of the last frame of a stream.
	flagFinal = 0x01
	control   = 0x80

	synStream, headersFrame = 1, 8
)

// frames passes on the frames of SPDY that another cluster sends, data in small ones. It refuses those that no server
// of exec, attach and port-forward sends, and that would stay in memory.
type frames struct {
	net.Conn

	// pending is the part of a frame's header that was not read yet, payload what follows of the connection.
	pending []byte
	payload int
	// stream, flags and left are those of a data frame of which more follows.
	stream [4]byte
	flags  byte
	left   int
}

// Read implements net.Conn.
func (f *frames) Read(p []byte) (int, error) {
	if len(f.pending) == 0 && f.payload == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if len(f.pending) > 0 {
		n := copy(p, f.pending)
		f.pending = f.pending[n:]
		return n, nil
	}
	n, err := f.Conn.Read(p[:min(len(p), f.payload)])
	f.payload -= n
	return n, err //nolint:wrapcheck // Passed on as it is.
}

// next begins a frame.
func (f *frames) next() error {
	if f.left == 0 {
		var header [frameHeader]byte
		if _, err := io.ReadFull(f.Conn, header[:]); err != nil {
			return err //nolint:wrapcheck // Passed on as it is.
		}
		length := int(header[5])<<16 | int(header[6])<<8 | int(header[7])
		if header[0]&control != 0 {
			kind := binary.BigEndian.Uint16(header[2:4])
			if kind == synStream || kind == headersFrame || length > maxControl {
				return fmt.Errorf("the other cluster sent a control frame of the type %d with %d bytes", kind, length)
			}
			f.pending, f.payload = header[:], length
			return nil
		}
		f.stream, f.flags, f.left = [4]byte(header[:4]), header[4], length
	}
	f.payload = min(f.left, maxData)
	f.left -= f.payload
	flags := f.flags
	if f.left > 0 {
		flags &^= flagFinal
	}
	f.pending = append(f.stream[:], flags, byte(f.payload>>16), byte(f.payload>>8), byte(f.payload)) //nolint:gosec // At most maxData.
	return nil
}
