package authentication

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

const (
	levelPrefix = "longshore-consumer-"
	// precedence is before that of all authenticated users (9900), and after that of Kubernetes' own components.
	precedence = 8000
	// shares are those of one consumer, where Kubernetes' own levels have 245: five of the 600 requests on which an
	// API server works at a time by default.
	shares = 2
	// queued is how many requests of a consumer wait. Further ones are refused, and its clients try again.
	queued = 500
)

// Isolation returns what bounds the requests of a consumer on which an API server works at a time: a priority level
// of its own, and what assigns all its users to it. The API server decodes requests before an admission webhook or
// policy can refuse them: a consumer with many or large ones would slow down all users of the cluster. With one level for all
// consumers, five requests whose bodies never end would stop the others for a minute.
func Isolation(consumer liqocorev1beta1.ClusterID) (*flowcontrolv1.PriorityLevelConfiguration, *flowcontrolv1.FlowSchema) {
	meta := metav1.ObjectMeta{Name: levelPrefix + string(consumer), Labels: bindingLabels(consumer)}
	level := &flowcontrolv1.PriorityLevelConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: flowcontrolv1.SchemeGroupVersion.String(), Kind: "PriorityLevelConfiguration"},
		ObjectMeta: *meta.DeepCopy(),
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To[int32](shares), LendablePercent: ptr.To[int32](0), BorrowingLimitPercent: ptr.To[int32](0),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{
					Queues: 1, HandSize: 1, QueueLengthLimit: queued,
				}},
			},
		},
	}
	all := []string{flowcontrolv1.ResourceAll}
	schema := &flowcontrolv1.FlowSchema{
		TypeMeta:   metav1.TypeMeta{APIVersion: flowcontrolv1.SchemeGroupVersion.String(), Kind: "FlowSchema"},
		ObjectMeta: meta,
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: meta.Name},
			MatchingPrecedence:         precedence,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{
					{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: ControlPlaneSubject(consumer).User}},
					{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: SliceSubject(consumer, "").Group}},
				},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, ClusterScope: true, Namespaces: all}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		},
	}
	return level, schema
}
