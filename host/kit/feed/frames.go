package feed

import (
	"bufio"
	"bytes"
	"io"
)

const (
	// firstBuffer and maxEvent bound the memory for one event. etcd refuses objects of more than 1.5 MiB.
	firstBuffer = 64 << 10
	maxEvent    = 16 << 20
)

// Events returns a scanner of the events of a watch, which are JSON without line breaks, a line each, as
// API servers write them. Its error is io.ErrUnexpectedEOF if the last line has no end.
func Events(body io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, firstBuffer), maxEvent)
	lines.Split(func(data []byte, atEOF bool) (advance int, token []byte, err error) {
		switch end := bytes.IndexByte(data, '\n'); {
		case end >= 0:
			return end + 1, data[:end], nil
		case atEOF && len(data) > 0:
			return 0, nil, io.ErrUnexpectedEOF
		default:
			return 0, nil, nil
		}
	})
	return lines
}
