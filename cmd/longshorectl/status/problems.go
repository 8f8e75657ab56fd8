package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/offload"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// problems returns what is wrong, in the order in which it is to be solved: the installation,
// its policies, the peers, their credentials, their grants, what is made of them, namespaces, custom
// resources, and pods.
func problems(s *snapshot) []Problem {
	return append([]Problem{}, slices.Concat(unreadable(s), installation(s), policies(s), peers(s), tenants(s), identities(s), grants(s), cordons(s), earlierPods(s), excessiveGrants(s), warnings(s), nodes(s), capacity(s),
		namespaces(s), remoteNamespaces(s), claims(s), reflections(s), pods(s))...)
}

func installation(s *snapshot) []Problem {
	var found []Problem
	for i := range s.deployments.Items {
		d := &s.deployments.Items[i]
		if want := ptr.Deref(d.Spec.Replicas, 1); d.Status.AvailableReplicas < want {
			found = append(found, Problem{
				Object: admin.Describe(d), Message: fmt.Sprintf("%d of %d replicas are available.", d.Status.AvailableReplicas, want),
				Actor: string(s.id), Action: fmt.Sprintf("Look at its pods: kubectl -n %s describe deployment %s", d.Namespace, d.Name),
			})
		}
	}
	return found
}

// policies returns the OffloadingPolicies by which a component does not decide, or not as they say.
func policies(s *snapshot) []Problem {
	var found []Problem
	for i := range s.policies.Items {
		policy := &s.policies.Items[i]
		problem := Problem{Object: "OffloadingPolicy " + policy.Name}
		switch ready := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition); {
		case ready == nil || policy.Status.ObservedGeneration < policy.Generation:
			problem.Message, problem.Action = "Its latest version is not reported as used yet.", "If it stays, look at the manager and the webhook: kubectl -n "+s.namespace+" get pods"
		case ready.Status == metav1.ConditionTrue:
			continue
		case ready.Reason == "Loading" || ready.Reason == "Behind": // Both end by themselves.
			problem.Message, problem.Action = joinReason(ready.Reason, ready.Message), "If it stays, look at the components that the message names."
		default:
			problem.Message, problem.Actor = joinReason(ready.Reason, ready.Message), string(s.id)
			problem.Action = "Do what the message says, or load an earlier version. What is loaded: longshorectl policy inspect --policy " + policy.Name
		}
		found = append(found, problem)
	}
	return found
}

// cordons returns the slices of consumers for which this cluster takes no new pods, until an administrator
// ends that.
func cordons(s *snapshot) []Problem {
	var found []Problem
	for i := range s.slices.Items {
		slice := &s.slices.Items[i]
		peer := slice.Labels[liqocorev1beta1.RemoteClusterIDLabel]
		problem := Problem{Peer: peer, Object: admin.Describe(slice), Actor: string(s.id)}
		switch by := resourceslice.Cordoned(slice); {
		case by == "" || isDrained(s, peer):
			continue
		case by == "tenant":
			problem.Message, problem.Action = "It is cordoned with its Tenant: new pods of the consumer are refused.", "To take them again, run longshorectl uncordon tenant "+peer
		default:
			problem.Message, problem.Action = "It is cordoned: new pods of it are refused.", "To take them again, run longshorectl uncordon resourceslice "+slice.Name+" --remote-cluster-id "+peer
		}
		found = append(found, problem)
	}
	return found
}

// peers returns the peers whose API server or network does not answer.
func peers(s *snapshot) []Problem {
	var found []Problem
	for i := range s.foreignClusters.Items {
		fc := &s.foreignClusters.Items[i]
		id := string(fc.Spec.ClusterID)
		conditions := fc.Status.Conditions
		if fc.Status.Modules.Networking.Enabled {
			conditions = slices.Concat(conditions, fc.Status.Modules.Networking.Conditions)
		}
		for _, c := range conditions {
			if !isBad(c) {
				continue
			}
			problem := Problem{Peer: id, Object: "ForeignCluster " + fc.Name, Message: strings.TrimSpace(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, joinReason(c.Reason, c.Message))), Actor: string(s.id)}
			switch {
			case c.Type != liqocorev1beta1.APIServerStatusCondition:
				problem.Action = "Look at the network between the clusters."
			case fc.Annotations[liqocorev1beta1.PermanentlyUnreachableAnnotation] != "":
				problem.Action = fmt.Sprintf("The peer is marked as lost: run longshorectl force unpeer %s.", id)
			default:
				problem.Action = fmt.Sprintf("Check that %s is reachable. If the peer is lost for good, run longshorectl force unpeer %s.", fc.Status.APIServerURL, id)
			}
			found = append(found, problem)
		}
	}
	return found
}

// consumersFault are reasons of a Tenant that its consumer can change.
var consumersFault = []string{"NonceMissing", "InvalidPublicKey", "InvalidSignature", "InvalidCertificateRequest"}

func tenants(s *snapshot) []Problem {
	var found []Problem
	for i := range s.tenants.Items {
		tenant := &s.tenants.Items[i]
		ready := meta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
		if ready == nil || ready.Status == metav1.ConditionTrue || tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
			continue
		}
		problem := Problem{Peer: string(tenant.Spec.ClusterID), Object: admin.Describe(tenant), Message: joinReason(ready.Reason, ready.Message), Actor: string(s.id)}
		switch {
		case slices.Contains(consumersFault, ready.Reason):
			problem.Actor, problem.Action = string(tenant.Spec.ClusterID), "Run longshorectl peer again, or longshorectl generate tenant with a new nonce."
		case ready.Reason == "CertificatePending":
			problem.Action = "Wait some seconds. If it stays, check that kube-controller-manager signs client certificates (kubernetes.io/kube-apiserver-client)."
		default:
			problem.Action = "Do what the message says."
		}
		found = append(found, problem)
	}
	return found
}

func identities(s *snapshot) []Problem {
	var found []Problem
	for i := range s.identities.Items {
		identity := &s.identities.Items[i]
		if identity.Status.KubeconfigSecretRef == nil {
			found = append(found, Problem{
				Peer: string(identity.Spec.ClusterID), Object: admin.Describe(identity), Message: "No kubeconfig was made of it.", Actor: string(s.id),
				Action: fmt.Sprintf("Look at its events: kubectl -n %s describe identity %s", identity.Namespace, identity.Name),
			})
		}
	}
	return found
}

// grants returns slices that are not granted. What the administrator of this cluster denied is
// no problem here.
func grants(s *snapshot) []Problem {
	var found []Problem
	for i := range s.slices.Items {
		slice := &s.slices.Items[i]
		peer := peerOf(s, slice)
		problem := Problem{Peer: string(peer), Object: admin.Describe(slice), Actor: string(peer)}
		if labels := authentication.LabelsProblem(slice, peer); labels != "" && !resourceslice.IsCopy(slice) {
			problem.Message, problem.Action, problem.Actor = labels, "Do what the message says.", string(s.id)
			found = append(found, problem)
			continue
		}
		for _, kind := range []authv1beta1.ResourceSliceConditionType{
			authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources,
		} {
			if problem.Message == "" {
				describeDecision(s, slice, kind, &problem)
			}
		}
		// This cluster does not use such amounts; its own are checked before they are granted.
		if err := quantity.CheckCapacities(slice.Status.Resources); err != nil && problem.Message == "" {
			problem.Message, problem.Action = "The provider grants what cannot be used: "+err.Error(), "Ask there to grant other amounts."
		}
		if problem.Message != "" {
			found = append(found, problem)
		}
	}
	return found
}

// describeDecision adds what is wrong with a provider's decision about a slice, if anything is.
func describeDecision(s *snapshot, slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType, problem *Problem) {
	c := resourceslice.ConditionOf(slice, kind)
	isCopy := resourceslice.IsCopy(slice)
	switch {
	case c == nil && isCopy:
		problem.Message, problem.Actor = fmt.Sprintf("%s is not decided.", kind), string(s.id)
		problem.Action = "Look at its class, whose controller decides: kubectl -n " + slice.Namespace + " describe resourceslices.authentication.liqo.io " + slice.Name
	case c == nil:
		problem.Message, problem.Action = fmt.Sprintf("The provider has not decided about %s.", kind), "Look at the slice's class and the Tenant there: longshorectl status"
	case !isDenied(*c):
	case !isCopy:
		problem.Message, problem.Action = fmt.Sprintf("The provider denied %s: %s", kind, joinReason(c.Reason, c.Message)), "Ask there, or delete the slice: longshorectl delete resourceslice "+slice.Name
	case kind == authv1beta1.ResourceSliceConditionTypeAuthentication && s.isKnown(resourceTenants) && !isDrained(s, problem.Peer):
		problem.Message, problem.Action = fmt.Sprintf("%s is denied: %s", kind, joinReason(c.Reason, c.Message)), "Run longshorectl peer again."
	}
}

// peerOf returns the peer of a slice: the one that its label names, or else that of its namespace.
func peerOf(s *snapshot, slice *authv1beta1.ResourceSlice) liqocorev1beta1.ClusterID {
	if id := slice.Labels[liqocorev1beta1.RemoteClusterIDLabel]; id != "" {
		return liqocorev1beta1.ClusterID(id)
	}
	for i := range s.foreignClusters.Items {
		if fc := &s.foreignClusters.Items[i]; fc.Status.TenantNamespace.Local == slice.Namespace {
			return fc.Spec.ClusterID
		}
	}
	return ""
}

// earlierPods returns the grants of consumers of which pods hold a part whose ResourceSlices are gone.
func earlierPods(s *snapshot) []Problem {
	var found []Problem
	for i := range s.slices.Items {
		slice := &s.slices.Items[i]
		consumer := ptr.Deref(slice.Spec.ConsumerClusterID, "")
		user := authentication.SliceSubject(consumer, slice.Name).User
		for j := range s.quotas.Items {
			quota := &s.quotas.Items[j]
			if !resourceslice.IsCopy(slice) || quota.Spec.User != user || len(quota.Status.Abandoned) == 0 {
				continue
			}
			found = append(found, Problem{
				Peer: string(consumer), Object: admin.Describe(slice), Actor: string(consumer),
				Message: "Pods of slices that are gone hold a part of what is granted, until they have ended: " + amounts(quota.Status.Abandoned) + ".",
				Action:  "Delete these pods there, or create the slice again under its old name. Here they are: kubectl get pods -A -l " + offloadingv1beta1.CreatorUserLabel + " -L " + offloadingv1beta1.CreatorUserLabel,
			})
		}
	}
	return found
}

// amounts prints resources, by name.
func amounts(list corev1.ResourceList) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		texts = append(texts, string(name)+" "+quantity.Text(list[name]))
	}
	return strings.Join(texts, ", ")
}

func isDrained(s *snapshot, consumer string) bool {
	return slices.ContainsFunc(s.tenants.Items, func(tenant authv1beta1.Tenant) bool {
		return string(tenant.Spec.ClusterID) == consumer && tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained
	})
}

func nodes(s *snapshot) []Problem {
	var found []Problem
	for i := range s.virtualNodes.Items {
		vn := &s.virtualNodes.Items[i]
		problem := Problem{Peer: string(vn.Spec.ClusterID), Object: admin.Describe(vn), Actor: string(s.id)}
		ready, _ := readiness(s, vn.Name)
		switch state := nodeState(s, vn); {
		case !vn.DeletionTimestamp.IsZero():
			problem.Message, problem.Actor = "It is being deleted: its pods are drained.", ""
			problem.Action = "Longshore continues. A PodDisruptionBudget, or a finalizer of a pod, may delay it."
		case virtualnode.ConditionStatus(vn, offloadingv1beta1.VirtualKubeletConditionType) != offloadingv1beta1.RunningConditionStatusType:
			problem.Message = "Its virtual kubelet does not run."
			for _, c := range vn.Status.Conditions {
				if c.Type == offloadingv1beta1.VirtualKubeletConditionType && c.Message != "" {
					problem.Message += " " + c.Message
				}
			}
			problem.Action = fmt.Sprintf("Look at its pod: kubectl -n %s describe pods -l %s", vn.Namespace, kubeletSelector(vn))
		case state == "NotReady":
			problem.Message, problem.Action = "Its Node is not ready: "+joinReason(ready.Reason, ready.Message), "Look at the Node: kubectl describe node "+vn.Name
		case state == "Missing":
			problem.Message, problem.Action = "Its Node does not exist.", fmt.Sprintf("Look at the log of its virtual kubelet: kubectl -n %s logs -l %s", vn.Namespace, kubeletSelector(vn))
		}
		if problem.Message == "" {
			problem.Message, problem.Action = keepsPodsAway(s, vn.Name)
		}
		if problem.Message != "" {
			found = append(found, problem)
		}
	}
	return found
}

// keepsPodsAway returns what keeps pods away from a Node that is ready, and the action; empty for nothing. Taints
// with keys of their own are on purpose.
func keepsPodsAway(s *snapshot, name string) (message, action string) {
	node := s.node(name)
	if node == nil {
		return "", ""
	}
	if node.Spec.Unschedulable {
		return "Its Node is cordoned: no pod is scheduled to it.", "When pods may run there again: kubectl uncordon " + name
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if namespace, _, _ := strings.Cut(taint.Key, "/"); namespace == "node.kubernetes.io" || namespace == "node.cloudprovider.kubernetes.io" {
			return fmt.Sprintf("Its Node has the taint %s, which keeps pods away.", taint.ToString()),
				"Look at its conditions and events, and exclude the Node from the controller that sets them: kubectl describe node " + name
		}
	}
	return "", ""
}

// kubeletSelector returns the label of the pods of a VirtualNode's virtual kubelet.
func kubeletSelector(vn *offloadingv1beta1.VirtualNode) string {
	return offloadingv1beta1.VirtualNodeLabel + "=" + vn.Name
}

func namespaces(s *snapshot) []Problem {
	var found []Problem
	for i := range s.offloadings.Items {
		nso := &s.offloadings.Items[i]
		problem := Problem{Object: "namespace " + nso.Namespace, Actor: string(s.id)}
		if misplaced := offload.Misplaced(nso); misplaced != "" {
			found = append(found, Problem{Object: problem.Object, Message: misplaced, Actor: problem.Actor, Action: "Do what the message says."})
		}
		switch nso.Status.OffloadingPhase {
		case offloadingv1beta1.NoClusterSelectedOffloadingPhaseType:
			problem.Message, problem.Action = "It is offloaded, and no virtual node is selected.", "Change its selector, or create a virtual node: longshorectl create resourceslice"
		case offloadingv1beta1.SomeFailedOffloadingPhaseType, offloadingv1beta1.AllFailedOffloadingPhaseType:
			problem.Message, problem.Action = "Remote namespaces are not ready: "+offload.Problem(nso), "Ask the administrator of that cluster."
		case offloadingv1beta1.TerminatingOffloadingPhaseType:
			problem.Message, problem.Actor = strings.TrimSpace("It is offloaded until its remote namespaces are gone. "+offload.Problem(nso)), ""
			problem.Action = "Longshore continues. If a cluster is lost for good, run longshorectl force unpeer for it."
		default:
			if !isLate(nso, s.now) {
				continue
			}
			problem.Message, problem.Action = "Remote namespaces are not ready for minutes: "+offload.Problem(nso), "Ask the administrator of that cluster."
		}
		found = append(found, problem)
	}
	return found
}

// isLate reports whether a remote namespace takes too long to become ready.
func isLate(nso *offloadingv1beta1.NamespaceOffloading, now time.Time) bool {
	for _, conditions := range nso.Status.RemoteNamespacesConditions {
		for _, c := range conditions {
			if c.Type == offloadingv1beta1.NamespaceReady && c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) > patience {
				return true
			}
		}
	}
	return false
}

// remoteNamespaces returns the namespaces of consumers that this cluster, as their provider, is deleting.
func remoteNamespaces(s *snapshot) []Problem {
	var found []Problem
	for i := range s.namespaceMaps.Items {
		nm := &s.namespaceMaps.Items[i]
		if nm.Labels[liqocorev1beta1.ReplicatedLabel] != "true" {
			continue
		}
		for _, local := range slices.Sorted(maps.Keys(nm.Status.CurrentMapping)) {
			current := nm.Status.CurrentMapping[local]
			if current.Phase != offloadingv1beta1.MappingTerminating && !current.IsEnding() {
				continue
			}
			found = append(found, Problem{
				Peer: nm.Labels[liqocorev1beta1.OriginIDLabel], Object: "namespace " + current.RemoteNamespace, Actor: string(s.id),
				Message: strings.TrimSpace("It is being deleted, and pods that are left in it run until they end. " + current.Message),
				Action:  "If it stays, look at what is left, and delete it: kubectl get pods -n " + current.RemoteNamespace,
			})
		}
	}
	return found
}

// claims returns the claims whose data a provider has lost, or is left in a cluster that has no virtual node here.
func claims(s *snapshot) []Problem {
	var found []Problem
	for i := range s.claims.Items {
		claim := &s.claims.Items[i]
		problem := Problem{Peer: claim.Labels[offloadingv1beta1.StorageClusterLabel], Object: admin.Describe(claim), Actor: string(s.id)}
		restart := "To go on with an empty volume, delete the claim and the pods that use it: kubectl delete -n " + claim.Namespace + " persistentvolumeclaim/" + claim.Name + " pod/<name of the pod>"
		isThere := slices.ContainsFunc(s.virtualNodes.Items, func(vn offloadingv1beta1.VirtualNode) bool { return string(vn.Spec.ClusterID) == problem.Peer })
		switch state := claim.Labels[offloadingv1beta1.RemoteClaimLabel]; {
		case state == offloadingv1beta1.RemoteClaimLost:
			problem.Message = "The claim was deleted in the provider, and its data with it, unless the volume is retained there: pods that use it stay Pending."
			problem.Action = restart
		case state == offloadingv1beta1.RemoteClaimCreated && !isThere && s.isKnown(resourceVirtualNodes):
			problem.Message = "Its data is in a cluster that has no virtual node here: pods that use it stay Pending. With the last virtual node, a provider deletes the data, unless it retains the volume."
			problem.Action = "If the data is left, peer with that cluster again. " + restart
		default:
			continue
		}
		found = append(found, problem)
	}
	return found
}

// reflections returns the kinds of custom resources that a virtual node does not reflect, or whose
// schemas differ.
func reflections(s *snapshot) []Problem {
	var found []Problem
	for i := range s.reflections.Items {
		reflection := &s.reflections.Items[i]
		for _, v := range reflection.Status.VirtualNodes {
			problem := Problem{Object: admin.Describe(reflection), Actor: string(s.id), Action: "Do what the message says."}
			for j := range s.virtualNodes.Items {
				if vn := &s.virtualNodes.Items[j]; v.Name == "virtual-kubelet/"+vn.Name {
					problem.Peer = string(vn.Spec.ClusterID)
				}
			}
			switch {
			case v.Reason != "":
				problem.Message = v.Name + " does not reflect it: " + joinReason(v.Reason, v.Message)
			case v.SchemaDifferences != "":
				problem.Message = "The schemas of the two clusters differ: " + v.SchemaDifferences
				problem.Action = "Install the same release of the CustomResourceDefinition in both clusters, or do not use these fields."
			default:
				continue
			}
			found = append(found, problem)
		}
	}
	return found
}

// joinReason joins a reason and a message.
func joinReason(reason, message string) string {
	switch {
	case message == "":
		return reason
	case reason == "":
		return message
	default:
		return reason + ": " + message
	}
}
