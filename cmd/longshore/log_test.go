package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A provider writes the texts of its errors, which this process logs.
func TestLongTextsAreCutInTheLog(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, text := range []bool{false, true} {
		var out bytes.Buffer
		log := newLogger(&out, text, 0)
		log.WithValues("of", long).Error(errors.New(long), long, "path", &url.URL{Path: long}, "name", long, "count", 3)
		assert.Less(t, out.Len(), 6*maxText)
		if !text {
			line := map[string]any{}
			require.NoError(t, json.Unmarshal(out.Bytes(), &line), "a line is JSON")
			for _, key := range []string{"of", "error", "msg", "path", "name"} {
				assert.Regexp(t, `…( \(\d+ bytes\))$`, line[key], key)
			}
			assert.InDelta(t, 3, line["count"], 0)
		}
	}
	var out bytes.Buffer
	newLogger(&out, false, 0).Info("Short", "name", "shop", "error", errors.New("refused"))
	assert.Contains(t, out.String(), `"msg":"Short","name":"shop","error":"refused"}`)
	out.Reset()
	newLogger(&out, false, 0).Info("Nothing", "error", (*url.Error)(nil), "path", (*url.URL)(nil))
	assert.Contains(t, out.String(), `"msg":"Nothing"`)
	out.Reset()
	newLogger(&out, false, 0).V(1).Info("Not asked for")
	assert.Empty(t, out.String())
}

// A provider changes objects a thousand times a second, about each of which this process logs a line.
func TestTheSameMessageHasARateInTheLog(t *testing.T) {
	for _, text := range []bool{false, true} {
		var out bytes.Buffer
		log := newLogger(&out, text, 0)
		for i := range 20 * maxLines {
			log.WithValues("name", i).Info("Kept")
			log.Error(errors.New("refused"), "Failed", "name", i)
		}
		log.Info("Another")
		for _, message := range []string{"Kept", "Failed"} {
			assert.LessOrEqual(t, strings.Count(out.String(), message), maxLines+20*maxLines/oneOf+1)
			assert.GreaterOrEqual(t, strings.Count(out.String(), message), maxLines/2)
		}
		assert.Equal(t, 1, strings.Count(out.String(), "Another"))
	}
	var out bytes.Buffer
	log := newLogger(&out, true, 1)
	for i := range 2 * maxLines {
		log.Info("Kept", "name", i)
	}
	assert.Equal(t, 2*maxLines, strings.Count(out.String(), "Kept"), "an operator who asks for more gets all")
}
