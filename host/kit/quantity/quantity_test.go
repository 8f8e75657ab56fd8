package quantity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

func TestCheck(t *testing.T) {
	for _, text := range []string{
		"0", "1", "100m", "1n", "0.000000001", "9223372036854775807", "9223372036854775806.999999999", "9Ei", "7.5Ei", "9E", "1e18", "+1", "1e-9", "000012", "0.1Mi",
	} {
		require.NoError(t, quantity.Check(resource.MustParse(text)), text)
	}
	for text, amount := range hostile.Quantities() {
		require.Error(t, quantity.Check(amount), text)
	}
	require.Error(t, quantity.Check(resource.MustParse("0e30000000")), "a zero that computes as long")
	finer := resource.NewDecimalQuantity(*inf.NewDec(1, 10), resource.DecimalSI)
	require.Error(t, quantity.Check(*finer), "a tenth of the smallest amount")
}

// An amount that is refused must be named without arithmetic.
func TestTheTextOfAnAmount(t *testing.T) {
	for text, want := range map[string]string{
		"1500m": "1500m", "1e30000000": "1e30000000", "-1": "-1",
		strings.Repeat("9", 60):  strings.Repeat("9", 40) + "…",
		strings.Repeat("9", 400): "a number of about 400 digits",
	} {
		assert.Equal(t, want, quantity.Text(resource.MustParse(text)))
	}
}

func TestCheckList(t *testing.T) {
	list := func(name, amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
	}
	many := corev1.ResourceList{}
	for i := range quantity.MaxResources + 1 {
		many[corev1.ResourceName("r"+strings.Repeat("x", i%60)+string(rune('a'+i/60)))] = resource.MustParse("1")
	}
	for name, tc := range map[string]struct {
		list corev1.ResourceList
		want string
	}{
		"none":               {nil, ""},
		"amounts":            {list("example.com/gpu", "4"), ""},
		"a negative amount":  {list("cpu", "-1"), "cpu=-1: amounts cannot be negative"},
		"a bomb":             {list("cpu", "1e30000000"), "cpu=1e30000000: amounts can be at most 9223372036854775807, with at most 9 decimals"},
		"an invalid name":    {list("a b", "1"), `"a b": name part must consist of`},
		"a very long name":   {list(strings.Repeat("a", 1<<20), "1"), `"` + strings.Repeat("a", 40) + `"…: the name of a resource has at most 317 bytes`},
		"too many resources": {many, "129 resources: at most 128 can be named"},
	} {
		t.Run(name, func(t *testing.T) {
			err := quantity.CheckList(tc.list)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// kube-scheduler's NodeResourcesFit computes (capacity - requested) * 100 / capacity in 64 bits, and fails for all Nodes
// when its result is no score.
func TestTheSchedulerCanComputeWithACapacity(t *testing.T) {
	for name, amounts := range map[corev1.ResourceName]struct{ most, more string }{
		corev1.ResourceCPU:    {"9007199254740992m", "9007199254740993m"},
		corev1.ResourceMemory: {"8Pi", "9007199254740993"},
		corev1.ResourcePods:   {"9007199254740992", "138000000000000000"},
		"example.com/gpu":     {"9007199254740992", "9Ei"},
	} {
		most, more := resource.MustParse(amounts.most), resource.MustParse(amounts.more)
		require.NoError(t, quantity.CheckCapacity(name, most), name)
		require.NoError(t, quantity.CheckCapacities(corev1.ResourceList{name: most}))
		value := most.Value()
		if name == corev1.ResourceCPU {
			value = most.MilliValue()
		}
		assert.Equal(t, int64(100), value*100/value, "%s does not overflow", name)
		require.ErrorContains(t, quantity.CheckCapacity(name, more), "a Node can have at most 9007199254740", name)
		require.ErrorContains(t, quantity.CheckCapacities(corev1.ResourceList{name: more}), string(name)+"=")
	}
	for text, amount := range hostile.Quantities() {
		require.Error(t, quantity.CheckCapacity("cpu", amount), text)
		require.Error(t, quantity.CheckCapacities(corev1.ResourceList{"cpu": amount}), text)
	}
}

// Every quantity of a pod is found, wherever it is.
func TestCheckAll(t *testing.T) {
	bomb := resource.MustParse("1e30000000")
	list := corev1.ResourceList{corev1.ResourceCPU: bomb}
	for want, set := range map[string]func(*corev1.Pod){
		"":                                     func(*corev1.Pod) {},
		"spec.overhead: cpu=":                  func(p *corev1.Pod) { p.Spec.Overhead = list },
		"spec.resources.requests: cpu=":        func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list} },
		"spec.containers[1].resources.limits:": func(p *corev1.Pod) { p.Spec.Containers[1].Resources.Limits = list },
		"spec.volumes[0].emptyDir.sizeLimit: 1e30000000: ": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &bomb}}}}
		},
		"spec.ephemeralContainers[0].resources.requests: ": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Resources: corev1.ResourceRequirements{Requests: list}}}}
		},
		"spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: ": func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Divisor: bomb}}}}
		},
		"status.containerStatuses[0].allocatedResources: ": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{AllocatedResources: list}}
		},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}}
		set(pod)
		err := quantity.CheckAll(pod)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, quantity.CheckAll(nil))
	require.NoError(t, quantity.CheckAll((*corev1.Pod)(nil)))
}

func TestEqual(t *testing.T) {
	list := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	assert.True(t, quantity.Equal(list("1"), list("1000m")))
	assert.False(t, quantity.Equal(list("1"), list("2")))
	assert.True(t, quantity.Equal(corev1.ResourceList{}, corev1.ResourceList(nil)), "as equality.Semantic does")
	for text := range hostile.Quantities() {
		assert.False(t, quantity.Equal(list(text), list("1")))
		assert.True(t, quantity.Equal(list(text), list(text)))
	}
	assert.False(t, quantity.Equal(list("1e2000000000"), list("1e2000000001")))
}
