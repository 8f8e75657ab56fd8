package shadowpod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

const user = "gpu-0123456789ab"

func shadowPod(edit func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "shop-rome", UID: "1", Labels: map[string]string{
		offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.CreatorUserLabel: user,
	}}}
	shadow.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "i:1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}
	if edit != nil {
		edit(shadow)
	}
	return shadow
}

func request(t *testing.T, operation admissionv1.Operation, before, after *offloadingv1beta1.ShadowPod, username string) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: "shop-rome", UserInfo: authenticationv1.UserInfo{Username: username},
	}}
	var err error
	r.Object.Raw, err = json.Marshal(after)
	require.NoError(t, err)
	if before != nil {
		r.OldObject.Raw, err = json.Marshal(before)
		require.NoError(t, err)
	}
	return r
}

func TestTheCreatorIsRecordedAndStays(t *testing.T) {
	forged := shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Labels[offloadingv1beta1.CreatorUserLabel] = "victim" })
	without := shadowPod(func(s *offloadingv1beta1.ShadowPod) { delete(s.Labels, offloadingv1beta1.CreatorUserLabel) })
	const path = "/metadata/labels/liqo.io~1creator-user"
	for name, tc := range map[string]struct {
		operation     admissionv1.Operation
		before, after *offloadingv1beta1.ShadowPod
		username      string
		off           bool
		denied        bool
		operationWant string
		valueWant     any
	}{
		"created":                                     {operation: admissionv1.Create, after: without, username: user, operationWant: "add", valueWant: user},
		"created with the name of another user":       {operation: admissionv1.Create, after: forged, username: user, operationWant: "replace", valueWant: user},
		"created by a user whose name is not a label": {operation: admissionv1.Create, after: without, username: "system:admin", operationWant: "add", valueWant: "system-admin"},
		"created by no user":                          {operation: admissionv1.Create, after: without, denied: true},
		"created without enforcement":                 {operation: admissionv1.Create, after: without, username: user, off: true},
		"an administrator changes another label":      {operation: admissionv1.Update, before: shadowPod(nil), after: shadowPod(nil), username: "admin"},
		"the creator hides itself":                    {operation: admissionv1.Update, before: shadowPod(nil), after: without, username: user, operationWant: "add", valueWant: user},
		"the creator names another user":              {operation: admissionv1.Update, before: shadowPod(nil), after: forged, username: user, operationWant: "replace", valueWant: user},
		"updated although it was created without one": {operation: admissionv1.Update, before: without, after: forged, username: user, operationWant: "remove"},
	} {
		t.Run(name, func(t *testing.T) {
			response := (&Mutator{Enforce: !tc.off}).Handle(t.Context(), request(t, tc.operation, tc.before, tc.after, tc.username))
			require.Equal(t, !tc.denied, response.Allowed, response.Result)
			if tc.operationWant == "" {
				assert.Empty(t, response.Patches)
				return
			}
			require.Len(t, response.Patches, 1)
			assert.Equal(t, tc.operationWant, response.Patches[0].Operation)
			assert.Equal(t, path, response.Patches[0].Path)
			assert.Equal(t, tc.valueWant, response.Patches[0].Value)
		})
	}
}

func validator(objects ...client.Object) *Validator {
	c := fakeclient.Builder(objects...).WithIndex(&offloadingv1beta1.Quota{}, "spec.user", quota.UserOf).Build()
	account := quota.NewAccount(clock.RealClock{})
	return &Validator{
		Decoder: admission.NewDecoder(c.Scheme()), Reader: fakeclient.Builder().Build(), APIReader: c,
		Quotas: &quota.Enforcer{Client: c, APIReader: c, Account: account, Clock: clock.RealClock{}},
	}
}

func namespace(cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop-rome", Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: cluster}}}
}

func quotaOf(cpu string, edit func(*offloadingv1beta1.Quota)) *offloadingv1beta1.Quota {
	q := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: "liqo-tenant-rome"}}
	q.Spec.User, q.Spec.Resources = user, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("1")}
	if edit != nil {
		edit(q)
	}
	return q
}

// large returns a ShadowPod whose spec has at least a size.
func large(size int) *offloadingv1beta1.ShadowPod {
	return shadowPod(func(s *offloadingv1beta1.ShadowPod) {
		s.Spec.Pod.Containers[0].Command = []string{strings.Repeat("a", size)}
	})
}

func TestCreations(t *testing.T) {
	for name, tc := range map[string]struct {
		shadow  *offloadingv1beta1.ShadowPod
		objects []client.Object
		denial  string
	}{
		"it fits":          {shadowPod(nil), []client.Object{namespace("rome"), quotaOf("1", nil)}, ""},
		"no quota":         {shadowPod(nil), []client.Object{namespace("rome")}, "user gpu-0123456789ab has no Quota"},
		"it does not fit":  {shadowPod(nil), []client.Object{namespace("rome"), quotaOf("900m", nil)}, "exceeded quota gpu-0123456789ab: requested cpu=1; used cpu=0; granted cpu=900m"},
		"a cordoned quota": {shadowPod(nil), []client.Object{namespace("rome"), quotaOf("1", func(q *offloadingv1beta1.Quota) { q.Spec.Cordoned = ptr.To(true) })}, "is cordoned"},
		"a cordoned quota, and a resource version": {
			shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.ResourceVersion = "0" }),
			[]client.Object{namespace("rome"), quotaOf("1", func(q *offloadingv1beta1.Quota) {
				q.Spec.Cordoned = ptr.To(true)
				q.Status.Reservations = []offloadingv1beta1.QuotaReservation{{
					Namespace: "shop-rome", Name: "pod", UID: "0", Time: metav1.Now(), Resources: corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("1")},
				}}
			})}, "accepts no new pods",
		},
		"as large as annotations and many variables": {shadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.Annotations = map[string]string{"a": strings.Repeat("a", 256<<10)}
			for i := range 2000 {
				s.Spec.Pod.Containers[0].Env = append(s.Spec.Pod.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("a", 60)})
			}
		}), []client.Object{namespace("rome"), quotaOf("1", nil)}, ""},
		"managed fields": {shadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("a", maxManagedFields-100)}}
		}), []client.Object{namespace("rome"), quotaOf("1", nil)}, ""},
		"managed fields of a client": {shadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("a", maxManagedFields)}}
		}), []client.Object{namespace("rome"), quotaOf("1", nil)}, "bytes of metadata.managedFields: the provider accepts 262144"},
		"as many terms as policies may add": {shadowPod(podTermsOf(4, 4, 4, 4)), []client.Object{namespace("rome"), quotaOf("1", nil)}, ""},
		"one term more":                     {shadowPod(podTermsOf(5, 4, 4, 4)), []client.Object{namespace("rome"), quotaOf("1", nil)}, "has 17 terms of podAffinity, podAntiAffinity and topologySpreadConstraints: the provider accepts 16"},
		"many terms of one kind":            {shadowPod(podTermsOf(0, 4000, 0, 0)), []client.Object{namespace("rome"), quotaOf("1", nil)}, "has 4000 terms"},
		"many values of a node selector": {shadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: slices.Repeat([]string{"a"}, maxSchedulingValues)}},
			}}}}}
		}), []client.Object{namespace("rome"), quotaOf("1", nil)}, "values of affinity, nodeSelector, tolerations and topologySpreadConstraints: the provider accepts 1000"},
		"many tolerations": {shadowPod(func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Tolerations = slices.Repeat([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, maxSchedulingValues)
		}), []client.Object{namespace("rome"), quotaOf("1", nil)}, "the provider accepts 1000"},
		"a large spec":           {large(maxSize), []client.Object{namespace("rome"), quotaOf("1", nil)}, "the provider accepts 524288"},
		"large labels":           {shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Labels[strings.Repeat("a", maxSize)] = "x" }), []client.Object{namespace("rome"), quotaOf("1", nil)}, "the provider accepts 524288"},
		"another's namespace":    {shadowPod(nil), []client.Object{namespace("oslo"), quotaOf("1", nil)}, "does not belong to cluster rome"},
		"a missing namespace":    {shadowPod(nil), []client.Object{quotaOf("1", nil)}, "does not belong to cluster rome"},
		"no origin":              {shadowPod(func(s *offloadingv1beta1.ShadowPod) { delete(s.Labels, offloadingv1beta1.OriginLabel) }), nil, "label offloading.liqo.io/origin is missing"},
		"the mutator was passed": {shadowPod(func(s *offloadingv1beta1.ShadowPod) { delete(s.Labels, offloadingv1beta1.CreatorUserLabel) }), []client.Object{namespace("rome"), quotaOf("1", nil)}, "must be the creator"},
	} {
		t.Run(name, func(t *testing.T) {
			v := validator(tc.objects...)
			response := v.Handle(t.Context(), request(t, admissionv1.Create, nil, tc.shadow, user))
			assert.Equal(t, tc.denial == "", response.Allowed, response.Result)
			if tc.denial != "" {
				assert.Contains(t, response.Result.Message, tc.denial)
				assert.EqualValues(t, 403, response.Result.Code)
			}
		})
	}
}

// podTermsOf returns an edit that gives a ShadowPod terms of required and preferred affinity, of preferred
// anti-affinity, and constraints of topology spread.
func podTermsOf(required, preferred, anti, spread int) func(*offloadingv1beta1.ShadowPod) {
	term := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", NamespaceSelector: &metav1.LabelSelector{}}
	weighted := corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term}
	return func(s *offloadingv1beta1.ShadowPod) {
		s.Spec.Pod.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  slices.Repeat([]corev1.PodAffinityTerm{term}, required),
				PreferredDuringSchedulingIgnoredDuringExecution: slices.Repeat([]corev1.WeightedPodAffinityTerm{weighted}, preferred),
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: slices.Repeat([]corev1.WeightedPodAffinityTerm{weighted}, anti)},
		}
		s.Spec.Pod.TopologySpreadConstraints = slices.Repeat([]corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone"}}, spread)
	}
}

// An amount that nothing may compute with concerns its own ShadowPod only: also without Quotas, and in a
// dry run. Each of them takes seconds or hours otherwise, during which the Quota decides about no other.
func TestHostileAmountsAreDenied(t *testing.T) {
	for text, amount := range hostile.Quantities() {
		t.Run(fmt.Sprintf("%.30s", text), func(t *testing.T) {
			with := func(s *offloadingv1beta1.ShadowPod) {
				s.Name, s.ResourceVersion = "hostile", "7"
				s.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = amount
			}
			v := validator(namespace("rome"), quotaOf("1", nil))
			for _, r := range []admission.Request{
				request(t, admissionv1.Create, nil, shadowPod(with), user),
				request(t, admissionv1.Update, shadowPod(nil), shadowPod(with), user),
				request(t, admissionv1.Update, shadowPod(with), shadowPod(with), user),
			} {
				r.DryRun = ptr.To(true)
				for _, validator := range []*Validator{v, {Decoder: v.Decoder, Reader: v.Reader, APIReader: v.APIReader}} {
					response := validator.Handle(t.Context(), r)
					require.False(t, response.Allowed)
					assert.Contains(t, response.Result.Message, "spec.pod.containers[0].resources.requests: cpu=")
				}
			}
			for name, after := range map[string]*offloadingv1beta1.ShadowPod{
				"its amount is corrected": shadowPod(nil),
				"its finalizer is removed": shadowPod(func(s *offloadingv1beta1.ShadowPod) {
					with(s)
					s.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
				}),
			} {
				response := v.Handle(t.Context(), request(t, admissionv1.Update, shadowPod(with), after, user))
				if amount.Sign() > 0 { // A correction would change the QoS class otherwise.
					assert.True(t, response.Allowed, "%s: %v", name, response.Result)
				}
			}
		})
	}
}

// The mutating webhook and its policies see what the API server has not validated.
func TestAmountsThatNothingMayParseAreDenied(t *testing.T) {
	for _, text := range []string{"1e-2000000000", "12345678901234567890e30000000"} {
		r := request(t, admissionv1.Create, nil, shadowPod(nil), user)
		r.Object.Raw = bytes.Replace(r.Object.Raw, []byte(`"cpu":"1"`), []byte(`"cpu":"`+text+`"`), 1)
		response := (&Mutator{Enforce: true}).Handle(t.Context(), r)
		require.False(t, response.Allowed)
		assert.Contains(t, response.Result.Message, "spec.pod.containers[0].resources.requests.cpu: ")
	}
}

func TestADryRunReservesNothing(t *testing.T) {
	v := validator(namespace("rome"), quotaOf("1", nil))
	for _, dryRun := range []bool{true, true, false} {
		r := request(t, admissionv1.Create, nil, shadowPod(nil), user)
		r.DryRun = ptr.To(dryRun)
		require.True(t, v.Handle(t.Context(), r).Allowed)
	}
	response := v.Handle(t.Context(), request(t, admissionv1.Create, nil, shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Name, s.UID = "next", "2" }), user))
	assert.False(t, response.Allowed)
}

func TestUpdates(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*offloadingv1beta1.ShadowPod)
		denial string
	}{
		"a finalizer, by the garbage collector (T77)": {func(s *offloadingv1beta1.ShadowPod) { s.Finalizers = []string{"foregroundDeletion"} }, ""},
		"a label, by an administrator (T77)":          {func(s *offloadingv1beta1.ShadowPod) { s.Labels["team"] = "a" }, ""},
		"an image":                                    {func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].Image = "i:2" }, ""},
		"tolerations and the deadline": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Tolerations, s.Spec.Pod.ActiveDeadlineSeconds = []corev1.Toleration{{Key: "k"}}, ptr.To(int64(1))
		}, ""},
		"requests that fit into the quota": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		}, ""},
		"requests that exceed the quota": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("64")
		}, "exceeded quota gpu-0123456789ab: requested cpu=64; used cpu=0; granted cpu=2"},
		"fewer requests": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
		}, ""},
		"no requests, by a consumer that frees its quota": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{}
		}, "a request for cpu may change, but not be removed"},
		"requests of another resource": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}, "may change"},
		"an ephemeral container": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
		}, ""},
		"the command of a container": {func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].Command = []string{"sh"} }, "may change"},
		"a further container (T66)": {func(s *offloadingv1beta1.ShadowPod) {
			s.Spec.Pod.Containers = append(s.Spec.Pod.Containers, corev1.Container{Name: "d"})
		}, "may change"},
		"no container": {func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers = nil }, "may change"},
		"a finalizer, by a controller that ends the deletion": {func(s *offloadingv1beta1.ShadowPod) {
			s.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time}
		}, ""},
		"fewer requests while it is being deleted and its pod stays": {func(s *offloadingv1beta1.ShadowPod) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.com/stays"}
			s.Spec.Pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1m")
		}, "the resources of a ShadowPod that is being deleted may not change"},
		"no requests while it is being deleted and its pod stays": {func(s *offloadingv1beta1.ShadowPod) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.com/stays"}
			s.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{}
		}, "the resources of a ShadowPod that is being deleted may not change"},
		"another origin":  {func(s *offloadingv1beta1.ShadowPod) { s.Labels[offloadingv1beta1.OriginLabel] = "oslo" }, "is missing or changes"},
		"no origin label": {func(s *offloadingv1beta1.ShadowPod) { delete(s.Labels, offloadingv1beta1.OriginLabel) }, "is missing or changes"},
	} {
		t.Run(name, func(t *testing.T) {
			before := shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.ResourceVersion = "7" })
			v := validator(quotaOf("2", nil))
			response := v.Handle(t.Context(), request(t, admissionv1.Update, before, shadowPod(tc.edit), "anyone"))
			assert.Equal(t, tc.denial == "", response.Allowed, response.Result)
			if tc.denial != "" {
				assert.Contains(t, response.Result.Message, tc.denial)
			}
		})
	}
}

// TestALargeShadowPodMayBecomeNoLarger has updates of ShadowPods that were stored without a bound.
func TestALargeShadowPodMayBecomeNoLarger(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*offloadingv1beta1.ShadowPod)
		denial string
	}{
		"it stays as large": {func(*offloadingv1beta1.ShadowPod) {}, ""},
		"it becomes larger": {func(s *offloadingv1beta1.ShadowPod) { s.Labels["team"] = "a" }, "the provider accepts 524288"},
		"it is being deleted": {func(s *offloadingv1beta1.ShadowPod) {
			s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.com/stays"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			after := large(maxSize)
			tc.edit(after)
			response := validator(quotaOf("2", nil)).Handle(t.Context(), request(t, admissionv1.Update, large(maxSize), after, user))
			assert.Equal(t, tc.denial == "", response.Allowed, response.Result)
			if tc.denial != "" {
				assert.Contains(t, response.Result.Message, tc.denial)
			}
		})
	}
}

// TestResizes has the changes of resources that the API server refuses in a running pod.
func TestResizes(t *testing.T) {
	amounts := func(requestCPU, requestMemory, limitCPU, limitMemory string) corev1.ResourceRequirements {
		set := func(cpu, memory string) corev1.ResourceList {
			list := corev1.ResourceList{}
			for name, amount := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
				if amount != "" {
					list[name] = resource.MustParse(amount)
				}
			}
			return list
		}
		return corev1.ResourceRequirements{Requests: set(requestCPU, requestMemory), Limits: set(limitCPU, limitMemory)}
	}
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	containers := func(resources corev1.ResourceRequirements) *corev1.PodSpec {
		return &corev1.PodSpec{Containers: []corev1.Container{{Resources: resources}}}
	}
	initContainers := func(policy *corev1.ContainerRestartPolicy, cpu string) *corev1.PodSpec {
		return &corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", RestartPolicy: policy, Resources: amounts(cpu, "", "", "")}},
			Containers:     []corev1.Container{{Resources: amounts("1", "", "", "")}},
		}
	}
	pod := func(resources corev1.ResourceRequirements) *corev1.PodSpec {
		return &corev1.PodSpec{Resources: &resources, Containers: []corev1.Container{{}}}
	}
	for name, tc := range map[string]struct {
		before, after *corev1.PodSpec
		denial        string
	}{
		"a guaranteed pod becomes smaller":  {containers(amounts("2", "2Gi", "2", "2Gi")), containers(amounts("1", "1Gi", "1", "1Gi")), ""},
		"and by its limits only":            {containers(amounts("", "", "2", "2Gi")), containers(amounts("", "", "1", "1Gi")), ""},
		"a guaranteed pod requests less":    {containers(amounts("2", "2Gi", "2", "2Gi")), containers(amounts("1m", "1Mi", "2", "2Gi")), "from Guaranteed to Burstable"},
		"a burstable pod becomes a fixed":   {containers(amounts("1", "1Gi", "2", "2Gi")), containers(amounts("2", "2Gi", "2", "2Gi")), "from Burstable to Guaranteed"},
		"a burstable pod requests nothing":  {containers(amounts("1", "1Gi", "", "")), containers(amounts("0", "0", "", "")), "from Burstable to BestEffort"},
		"a pod that requests nothing grows": {containers(amounts("", "", "", "")), containers(amounts("1", "", "", "")), "from BestEffort to Burstable"},
		"a limit is removed":                {containers(amounts("1", "1Gi", "2", "2Gi")), containers(amounts("1", "1Gi", "2", "")), "a limit of memory may change, but not be removed"},
		"a request is removed":              {containers(amounts("1", "1Gi", "2", "2Gi")), containers(amounts("1", "", "2", "2Gi")), "a request for memory may change, but not be removed"},
		"a limit is added":                  {containers(amounts("1", "1Gi", "", "")), containers(amounts("1", "1Gi", "2", "2Gi")), ""},
		"an init container":                 {initContainers(nil, "4"), initContainers(nil, "1m"), `the resources of init container "init" may not change`},
		"a sidecar":                         {initContainers(always, "4"), initContainers(always, "1m"), ""},
		"the pod's own resources":           {pod(amounts("2", "2Gi", "2", "2Gi")), pod(amounts("1", "1Gi", "1", "1Gi")), ""},
		"less of the pod's own":             {pod(amounts("2", "2Gi", "2", "2Gi")), pod(amounts("1", "1Gi", "2", "2Gi")), "from Guaranteed to Burstable"},
		"one of the pod's own is removed":   {pod(amounts("2", "2Gi", "", "")), pod(amounts("2", "", "", "")), "a request for memory may change, but not be removed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := validateResize(tc.before, tc.after)
			if tc.denial == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tc.denial)
		})
	}
}
