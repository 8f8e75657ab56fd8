// Package hostile has values that the other cluster may send to stop this one.
package hostile

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantities returns amounts that Kubernetes' parser accepts and that nothing may compute with, by
// their text. Those with large exponents that the parser itself rounds are missing: parsing them takes
// as long as computing with them, so that only patterns of CRDs and JSON decoders can refuse them.
func Quantities() map[string]resource.Quantity {
	amounts := map[string]resource.Quantity{}
	for _, text := range []string{
		"1e30000000", "1e2000000000", "-1e2000000000", "1E2147483647", "12345678901234567890e3000", "1e19", "9223372036854775808", "9223372036854775807.5",
		"10E", "-1", "-1n", strings.Repeat("9", 400), "0." + strings.Repeat("9", 400) + "e400", "+" + strings.Repeat("1", 10000),
	} {
		amounts[text] = resource.MustParse(text)
	}
	return amounts
}
