package report

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// WriteFile writes a report to a file with one of the functions of this package, unless the path is
// empty.
func WriteFile[R any](path string, result R, write func(io.Writer, R) error) (err error) {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file, result)
}
