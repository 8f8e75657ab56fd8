package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

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

// What is left out is counted, and said once a minute.
func TestLinesThatAreLeftOutAreCounted(t *testing.T) {
	for _, text := range []bool{false, true} {
		var out bytes.Buffer
		var reports []func()
		log := newLoggerWith(&out, text, 0, func(wait time.Duration, do func()) {
			assert.Equal(t, time.Minute, wait)
			reports = append(reports, do)
		})
		const lines = 10 * maxLines
		for range lines {
			log.Info("Kept")
			log.Error(errors.New("refused"), "Failed")
		}
		log.Info("Another")
		require.Len(t, reports, 1, "the first line that is left out begins a minute")
		shown := strings.Count(out.String(), "Kept")
		out.Reset()
		reports[0]()
		assert.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		assert.Contains(t, out.String(), "Lines were left out of the log")
		assert.Regexp(t, fmt.Sprintf(`"Kept": ?%d\b`, lines-shown), out.String())
		assert.Contains(t, out.String(), `"Failed"`)
		assert.NotContains(t, out.String(), "Another")

		for i := range 2 * maxMessages {
			for range maxLines + 1 {
				log.Info(fmt.Sprint("Message ", i))
			}
		}
		require.Len(t, reports, 2, "another minute")
		out.Reset()
		reports[1]()
		assert.Equal(t, maxMessages, strings.Count(out.String(), "Message "))
		assert.Contains(t, out.String(), `"others"`)
	}
}
