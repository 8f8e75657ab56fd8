package main

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantitiesOfUsersAreAccepted and those that Go refuses, or is slow with, are not.
func TestQuantitiesOfUsersAreAccepted(t *testing.T) {
	pattern := regexp.MustCompile(quantity)
	for text, want := range map[string]bool{
		"0": true, "4": true, "100m": true, "1.5": true, ".5": true, "1.": true, "+1": true, "-1": true, "16Gi": true, "0.30000000000000004": true, "9223372036854775807": true,
		"12e6": true, "1E3": true, "1e+3": true, "1e-3": true, "1e18": true, "1E": true, "100n": true, "250u": true,
		"1e1.5": false, "1e.5": false, "1e19": false, "1e-10": false, "1e30000000": false, "12345678901234567890": false, "1Kim": false, "": false, "１": false, "1\n": false,
	} {
		isQuantity := pattern.MatchString(text)
		_, err := resource.ParseQuantity(text)
		assert.Equal(t, want, isQuantity, text)
		assert.True(t, !isQuantity || err == nil, "%s is accepted: %v", text, err)
	}
}

// TestDatesAreThoseOfGo holds the pattern of dates against package time.
func TestDatesAreThoseOfGo(t *testing.T) {
	pattern := regexp.MustCompile(dateTime)
	for text, want := range map[string]bool{
		"2026-11-28T05:00:00Z": true, "2026-11-28T05:00:00.123456789+02:00": true, "1970-01-01T00:00:00Z": true, "0001-01-01T00:00:00Z": true,
		"2026-11-28t05:00:00z": false, "2026-11-28T05:00:00": false, "2026-11-28 05:00:00Z": false, "2026-11-28T05:00:00+24:00": false, "9999-12-31T23:59:59-23:59": false,
		"2026-11-28T05:00:00.Z": false,
	} {
		assert.Equal(t, want, pattern.MatchString(text), text)
		if _, err := time.Parse(time.RFC3339, text); want {
			assert.NoError(t, err, text)
		}
	}
}
