package policysource

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

func TestWhoRunsTheCurrentVersion(t *testing.T) {
	says := func(name string, generation int64, digest string) policyv1alpha1.Observation {
		return policyv1alpha1.Observation{Name: name, Generation: generation, Digest: digest}
	}
	const module, older = "sha256:0123456789abcdef", "sha256:ba9876543210cdef"
	own := says("webhook/b", 3, module)
	for name, tc := range map[string]struct {
		own       policyv1alpha1.Observation
		others    []policyv1alpha1.Observation
		known     map[string]bool
		candidate candidate
		wantRunBy string
		want      string
	}{
		"alone": {own: own, wantRunBy: "1/1 webhook", want: "True AllCurrent: All components decide by generation 3: 1 of 1."},
		"all, replicas together and virtual kubelets by name": {
			own: own, others: []policyv1alpha1.Observation{says("virtual-kubelet/turin", 3, module), says("webhook/a", 3, module), says("virtual-kubelet/milan", 3, module), own},
			wantRunBy: "4/4 webhook×2,virtual-kubelet/milan,virtual-kubelet/turin", want: "True AllCurrent: All components decide by generation 3: 4 of 4.",
		},
		"more than a line holds": {
			own: own, others: []policyv1alpha1.Observation{says("virtual-kubelet/a", 3, module), says("virtual-kubelet/b", 3, module), says("virtual-kubelet/c", 3, module)},
			wantRunBy: "4/4 webhook,virtual-kubelet/a,virtual-kubelet/b,…", want: "True AllCurrent",
		},
		"a replica with other settings": {
			own: own, others: []policyv1alpha1.Observation{says("webhook/a", 2, module)},
			wantRunBy: "1/2 webhook", want: "False Behind: 1 of 2 components do not decide by generation 3: webhook/a (by generation 2 with module 0123456789ab)",
		},
		"another module, and none yet": {
			own: own, others: []policyv1alpha1.Observation{says("virtual-kubelet/milan", 3, older), says("virtual-kubelet/turin", 0, "")},
			wantRunBy: "1/3 webhook", want: "False Behind: 2 of 3 components do not decide by generation 3: virtual-kubelet/milan (by generation 3 with module ba9876543210), virtual-kubelet/turin (by none)",
		},
		"one that is known has not reported": {
			own: own, others: []policyv1alpha1.Observation{says("webhook/a", 3, module)}, known: map[string]bool{"webhook/b": true, "webhook/a": true, "virtual-kubelet/milan": true},
			wantRunBy: "2/3 webhook×2", want: "False Behind: 1 of 3 components do not decide by generation 3: virtual-kubelet/milan (by none)",
		},
		"switched off everywhere": {own: says("webhook", 3, ""), others: []policyv1alpha1.Observation{says("virtual-kubelet/milan", 3, "")}, want: "True AllCurrent: All components decide by generation 3: 2 of 2."},
		"switched off, but not yet everywhere": {
			own: says("webhook", 3, ""), others: []policyv1alpha1.Observation{says("virtual-kubelet/milan", 2, module), says("virtual-kubelet/turin", 2, "")},
			want: "False Behind: 2 of 3 components do not decide by generation 3: virtual-kubelet/milan (by generation 2 with module 0123456789ab), virtual-kubelet/turin (by generation 2)",
		},
		"refused here": {
			own: says("webhook", 2, module), others: []policyv1alpha1.Observation{says("virtual-kubelet/milan", 3, older)}, candidate: candidate{problem: &problem{reason: reasonModule, err: errors.New("it is cut in half")}},
			wantRunBy: "0/2", want: "False ModuleNotLoaded: The latest version is not used: it is cut in half",
		},
		"being loaded": {own: own, candidate: candidate{loading: time.Unix(1, 0)}, wantRunBy: "1/1 webhook", want: "False Loading: The module of the latest version is being loaded."},
	} {
		t.Run(name, func(t *testing.T) {
			all := rollOut(3, &tc.own, tc.others, tc.known)
			assert.Equal(t, tc.wantRunBy, all.runBy())
			condition := all.condition(&tc.candidate)
			assert.Equal(t, policyv1alpha1.RolledOutCondition, condition.Type)
			assert.Contains(t, string(condition.Status)+" "+condition.Reason+": "+condition.Message, tc.want)
		})
	}
}
