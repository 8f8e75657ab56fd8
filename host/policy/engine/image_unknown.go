//go:build linux && !amd64 && !arm64

package engine

// memfdCreate is zero where nobody has looked the number up: instances copy their state.
const memfdCreate = 0
