package suite

import (
	"testing"
)

// Run is [Conform] as a Go test: each check is a subtest. It is the door for authors
// whose policies are tested beside the host.
//
//	func TestConformance(t *testing.T) {
//		own, err := vectors.Read(os.DirFS("vectors"))
//		if err != nil {
//			t.Fatal(err)
//		}
//		suite.Run(t, module, suite.Options{Vectors: own, CacheDir: t.TempDir()})
//	}
func Run(t *testing.T, raw []byte, options Options) {
	t.Helper()
	report, err := Conform(t.Context(), raw, options)
	if err != nil {
		t.Fatalf("the module cannot be asked: %v", err)
	}
	for _, result := range report.Results() {
		rule := ruleOf(result.Rule)
		t.Run(result.Rule+"/"+result.Feature+"/"+result.Name, func(t *testing.T) {
			switch {
			case result.Err == nil:
			case rule.Advice && !options.Strict:
				t.Logf("the host bears it, but: %v", result.Err)
			default:
				t.Errorf("%v\nthe contract: %s\ninput: %s", result.Err, rule.Sentence, result.Input)
			}
		})
	}
}
