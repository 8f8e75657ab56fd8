package cluster

import "context"

// rules returns the rules in their order: later ones build on what earlier ones created.
func rules() []Rule {
	all := namespaceRules()
	all = append(all, podRules()...)
	all = append(all, objectRules()...)
	all = append(all, accessRules()...)
	all = append(all, longshoreRules()...)
	return append(all, withdrawalRules()...)
}

func namespaceRules() []Rule {
	return []Rule{
		{ID: "node.ready", Profile: ProfileWire, Section: "5.4", run: (*session).nodeReady,
			Sentence: "The provider is a Node of the consumer: ready, of the type virtual-node, with its label and its taint."},
		{ID: "namespace.mapped", Profile: ProfileWire, Section: "6.1, 6.2, 6.5", needs: []string{"node.ready"}, run: (*session).namespaceMapped,
			Sentence: "A NamespaceOffloading creates a namespace of the mapped name in the provider, and its status reports it."},
		{ID: "namespace.labeled", Profile: ProfileWire, Section: "6.2", needs: []string{"namespace.mapped"}, run: (*session).namespaceLabeled,
			Sentence: "An offloaded namespace has the label that selects its pods for placement."},
	}
}

func podRules() []Rule {
	needs := []string{"namespace.mapped"}
	running := []string{"pod.runs"}
	return []Rule{
		{ID: "pod.placed", Profile: ProfileWire, Section: "2.2", needs: needs, run: (*session).podPlaced,
			Sentence: "A pod of an offloaded namespace tolerates the taint of virtual nodes and, with the strategy Remote, requires one."},
		{ID: "pod.runs", Profile: ProfileWire, Section: "3.1, 3.7", needs: needs, run: (*session).podRuns,
			Sentence: "A pod on the virtual node has a ShadowPod and a pod of its name in the provider, and is Running."},
		{ID: "pod.owned", Profile: ProfileWire, Section: "3.1, 3.2", needs: running, run: (*session).podOwned,
			Sentence: "The local pod, the ShadowPod and the remote pod have the labels that name their clusters and their manager."},
		{ID: "pod.isolated", Profile: ProfileWire, Section: "3.3", needs: running, run: (*session).podIsolated,
			Sentence: "The remote pod has no namespaces of its host, mounts no token of the provider and does not tolerate virtual nodes."},
		{ID: "pod.status", Profile: ProfileWire, Section: "3.8", needs: running, run: (*session).podStatus,
			Sentence: "The status of the local pod is that of the remote pod."},
		{ID: "pod.restored", Profile: ProfileWire, Section: "3.7", needs: running, run: (*session).podRestored,
			Sentence: "A pod that is deleted in the provider is created again, and the local pod stays."},
	}
}

func objectRules() []Rule {
	var all []Rule
	for _, kind := range kinds() {
		all = append(all, Rule{
			ID: kind.id + ".reflected", Profile: ProfileWire, Section: kind.section, Sentence: kind.sentence, needs: []string{"namespace.mapped"},
			run: func(s *session, ctx context.Context) error { return s.reflected(ctx, kind) },
		})
	}
	needs := []string{"configmap.reflected"}
	return append(all,
		Rule{ID: "object.owned", Profile: ProfileWire, Section: "4.1", needs: needs, run: (*session).objectOwned,
			Sentence: "A remote object has the labels that name the two clusters."},
		Rule{ID: "object.updated", Profile: ProfileWire, Section: "4.1", needs: needs, run: (*session).objectUpdated,
			Sentence: "A change of a local object reaches the remote object."},
		Rule{ID: "object.repaired", Profile: ProfileWire, Section: "4.1", needs: needs, run: (*session).objectRepaired,
			Sentence: "A change of a remote object is reverted."},
		Rule{ID: "object.skipped", Profile: ProfileWire, Section: "4.1", needs: needs, run: (*session).objectSkipped,
			Sentence: "An object with the annotation liqo.io/skip-reflection has no remote object, and loses the one that it has."},
		Rule{ID: "object.unmanaged", Profile: ProfileWire, Section: "4.1", needs: needs, run: (*session).objectUnmanaged,
			Sentence: "An object of the provider that is not managed is never changed, and the local object has an event FailedReflection."},
		Rule{ID: "metadata.filtered", Profile: ProfileWire, Section: "3.2, 4.1", needs: needs, run: (*session).metadataFiltered,
			Sentence: "Labels and annotations that the VirtualNode lists as not reflected do not leave the consumer; others do."},
		Rule{ID: "object.deleted", Profile: ProfileWire, Section: "4.1", needs: needs, run: (*session).objectDeleted,
			Sentence: "A remote object is deleted with its local object."},
	)
}

func accessRules() []Rule {
	needs := []string{"namespace.mapped"}
	return []Rule{
		{ID: "identity.pods", Profile: ProfileWire, Section: "6.5", needs: needs, run: (*session).identityPods,
			Sentence: "The identity of the consumer cannot create pods in the provider, also not in its own namespaces."},
		{ID: "identity.confined", Profile: ProfileWire, Section: "P2.6", needs: needs, run: (*session).identityConfined,
			Sentence: "The identity of the consumer reads no Secrets and creates no ShadowPods outside of its own namespaces."},
		{ID: "quota.enforced", Profile: ProfileWire, Section: "2.5", needs: needs, run: (*session).quotaEnforced,
			Sentence: "A ShadowPod that requests more than the Quota of its creator is refused."},
		{ID: "shadowpod.origin", Profile: ProfileWire, Section: "2.5", needs: needs, run: (*session).shadowPodOrigin,
			Sentence: "A ShadowPod whose origin is not that of its namespace is refused."},
	}
}

func longshoreRules() []Rule {
	return []Rule{
		{ID: "longshore.webhook", Profile: ProfileLongshore, run: (*session).longshoreWebhook,
			Sentence: "The API server of each cluster reaches Longshore's webhook."},
		{ID: "longshore.policies", Profile: ProfileLongshore, run: (*session).longshorePolicies,
			Sentence: "Every policy of each cluster is ready: all components decide by its current version."},
		{ID: "longshore.decisions", Profile: ProfileLongshore, needs: []string{"pod.runs"}, run: (*session).longshoreDecisions,
			Sentence: "A remote pod records the decisions of the policies that formed it."},
		{ID: "longshore.quota", Profile: ProfileLongshore, needs: []string{"pod.runs"}, run: (*session).longshoreQuota,
			Sentence: "The status of the consumer's Quota counts the pods that run."},
	}
}

func withdrawalRules() []Rule {
	return []Rule{
		{ID: "pod.deleted", Profile: ProfileWire, Section: "3.6", needs: []string{"pod.runs"}, run: (*session).podDeleted,
			Sentence: "A pod that is deleted in the consumer ends in the provider before it is gone, and leaves no ShadowPod."},
		{ID: "namespace.withdrawn", Profile: ProfileWire, Section: "6.6", needs: []string{"namespace.mapped"}, run: (*session).namespaceWithdrawn,
			Sentence: "The deletion of a NamespaceOffloading deletes the namespace in the provider, its mapping and the label of the local namespace."},
	}
}
