package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"
)

var notInLabel = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// LabelValue returns the name of a user as the value of the creator label: every character that
// labels do not allow becomes "-". A name that is not a label value even so is
// shortened, with a hash.
func LabelValue(user string) string {
	value := notInLabel.ReplaceAllString(user, "-")
	if len(validation.IsValidLabelValue(value)) == 0 {
		return value
	}
	const kept, hashed = 40, 10
	sum := sha256.Sum256([]byte(user))
	return "u" + value[:min(len(value), kept)] + "-" + hex.EncodeToString(sum[:hashed])
}
