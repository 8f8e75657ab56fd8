package builtinpolicies

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestModule(t *testing.T) {
	packed := []byte("packed")
	lock := []byte(`{"go":"go1.26.8","packedSHA256":"` + Digest(packed) + `"}`)
	other := []byte(`{"go":"go1.26.9","packedSHA256":"` + Digest([]byte("other")) + `"}`)
	tests := map[string]struct {
		files     map[string][]byte
		wantError string
	}{
		"a fresh clone has the lock only":              {files: map[string][]byte{LockFile: lock}, wantError: "run make builtins"},
		"the module is the one of the lock":            {files: map[string][]byte{LockFile: lock, ModuleFile: packed}},
		"the module is another one":                    {files: map[string][]byte{LockFile: other, ModuleFile: packed}, wantError: "run make builtins"},
		"another Go patch version has a lock for this": {files: map[string][]byte{LockFile: other, LocalLockFile: lock, ModuleFile: packed}},
		"the lock is missing":                          {files: map[string][]byte{ModuleFile: packed}, wantError: "reading the lock"},
		"the lock is not a lock":                       {files: map[string][]byte{LockFile: []byte("{"), ModuleFile: packed}, wantError: "parsing the lock"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for path, data := range tc.files {
				files[path] = &fstest.MapFile{Data: data}
			}
			got, err := module(files)
			if tc.wantError != "" {
				require.ErrorContains(t, err, tc.wantError)
				assert.Nil(t, got)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, packed, got)
		})
	}
}
