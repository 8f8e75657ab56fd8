package provider

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// DefaultSecurityLevel is the level of the Pod Security standards for pods of consumers.
const DefaultSecurityLevel = api.LevelBaseline

// systemPriority is the prefix of the priority classes of the provider's own critical pods.
const systemPriority = "system-"

// securityEvaluator holds the checks of the Pod Security standards.
var securityEvaluator = sync.OnceValues(func() (policy.Evaluator, error) {
	return policy.NewEvaluator(policy.DefaultChecks(), nil)
})

// SecurityViolation returns how a pod violates a Pod Security level; empty when the pod is
// allowed. The Pod Security labels of the namespace take precedence over level. An invalid
// label means restricted.
func SecurityViolation(level api.Level, namespaceLabels map[string]string, pod *corev1.Pod) (string, error) {
	evaluator, err := securityEvaluator()
	if err != nil {
		return "", fmt.Errorf("preparing the Pod Security checks: %w", err)
	}
	if level == "" {
		level = DefaultSecurityLevel
	}
	defaults := api.Policy{Enforce: api.LevelVersion{Level: level, Version: api.LatestVersion()}}
	// The policy is restricted when a label is invalid.
	effective, _ := api.PolicyToEvaluate(namespaceLabels, defaults)
	enforced := effective.Enforce
	var reasons []string
	if result := policy.AggregateCheckResults(evaluator.EvaluatePod(enforced, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
		reasons = append(reasons, result.ForbiddenDetail())
	}
	if class := pod.Spec.PriorityClassName; enforced.Level != api.LevelPrivileged && strings.HasPrefix(class, systemPriority) {
		reasons = append(reasons, fmt.Sprintf("priority class reserved for the provider (%s)", class))
	}
	if node := pod.Spec.NodeName; enforced.Level != api.LevelPrivileged && node != "" {
		// The scheduler and the taints of nodes would not count.
		reasons = append(reasons, fmt.Sprintf("node chosen without the scheduler (nodeName=%s)", node))
	}
	if len(reasons) == 0 {
		return "", nil
	}
	return fmt.Sprintf("violates the provider's Pod Security level %q: %s", enforced.Level, strings.Join(reasons, ", ")), nil
}
