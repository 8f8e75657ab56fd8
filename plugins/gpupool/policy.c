// The policy gpu-pool: pods that request an accelerator go to the nodes that have it, with
// the runtime class that it needs. README.md explains how to build and load it.

#include "longshore.h"

// manifest declares the resources of containers in, node selector and runtime class out, and
// only when the remote pod is forged: pools are those of the provider.
static const ls_manifest manifest = {
	.name = "gpu-pool",
	.version = "1.0.0",
	.points = (const ls_point_manifest[]){
		{
			.point = "PodMutation",
			.moments = LS_LIST("Offload"),
			.reads = LS_LIST("/object/spec/containers[*]/resources", "/object/spec/initContainers[*]/resources"),
			.writes = (const ls_write_rule[]){
				{.path = "/spec/nodeSelector", .verbs = LS_LIST("merge")},
				{.path = "/spec/runtimeClassName", .verbs = LS_LIST("set")},
				{0},
			},
		},
		{0},
	},
};

LS_MANIFEST(manifest)

// check returns what is wrong with the settings, or 0:
//
//	{"pools": {"nvidia.com/gpu": {"nodeSelector": {"pool": "gpu"}, "runtimeClassName": "nvidia"}}}
static const char *check(ls_value settings) {
	if (!settings.length || ls_equal(settings, "null")) return "spec.settings.pools is missing: the policy would do nothing";
	if (!ls_is_object(settings)) return "spec.settings: want an object";
	for (ls_iterator i = ls_each(settings); ls_next(&i);)
		if (!ls_equal(i.name, "pools")) return "spec.settings: unknown field, want pools";
	ls_value pools = ls_member(settings, "pools");
	if (!ls_is_object(pools)) return "spec.settings.pools: want an object with a member for each resource";
	int count = 0;
	for (ls_iterator pool = ls_each(pools); ls_next(&pool); count++) {
		if (!ls_is_object(pool.value)) return "spec.settings.pools: want an object with nodeSelector and runtimeClassName for each resource";
		for (ls_iterator i = ls_each(pool.value); ls_next(&i);) {
			if (ls_equal(i.name, "runtimeClassName")) {
				if (!ls_is_string(i.value)) return "spec.settings.pools: runtimeClassName must be a string";
			} else if (ls_equal(i.name, "nodeSelector")) {
				if (!ls_is_object(i.value)) return "spec.settings.pools: nodeSelector must be an object";
				for (ls_iterator label = ls_each(i.value); ls_next(&label);)
					if (!ls_is_string(label.value)) return "spec.settings.pools: the values of nodeSelector must be strings";
			} else {
				return "spec.settings.pools: unknown field, want nodeSelector or runtimeClassName";
			}
		}
	}
	if (count > 32) return "spec.settings.pools has more than 32 members";
	return count ? 0 : "spec.settings.pools is empty: the policy would do nothing";
}

LS_SETTINGS(check)

static int same(ls_text a, ls_text b) {
	if (a.length != b.length) return 0;
	for (ls_u32 i = 0; i < a.length; i++)
		if (a.at[i] != b.at[i]) return 0;
	return 1;
}

// requested returns a bit for each pool whose resource is in a list with a quantity other than
// zero.
static ls_u32 requested(ls_value pools, ls_value list) {
	ls_u32 bits = 0;
	for (ls_iterator i = ls_each(list); ls_next(&i);) {
		ls_text quantity = ls_is_string(i.value) ? ls_text_of(i.value) : i.value;
		if (!quantity.length || ls_equal(quantity, "0") || ls_equal(quantity, "null")) continue;
		ls_u32 bit = 1;
		for (ls_iterator pool = ls_each(pools); ls_next(&pool); bit <<= 1)
			if (same(i.name, pool.name)) bits |= bit;
	}
	return bits;
}

// requested_by visits the containers of a list once, because a pod may have a thousand. A limit
// of an accelerator is a request, too.
static ls_u32 requested_by(ls_value containers, ls_value pools) {
	ls_u32 bits = 0;
	for (ls_iterator c = ls_each(containers); ls_next(&c);)
		for (ls_iterator member = ls_each(c.value); ls_next(&member);) {
			if (!ls_equal(member.name, "resources")) continue;
			for (ls_iterator list = ls_each(member.value); ls_next(&list);)
				if (ls_equal(list.name, "limits") || ls_equal(list.name, "requests")) bits |= requested(pools, list.value);
		}
	return bits;
}

LS_POINT(pod_mutation, "PodMutation")(const ls_request *request, ls_answer *answer) {
	const char *problem = check(request->settings);
	if (problem) return ls_fail(problem);
	ls_value spec = ls_member(ls_member(request->facts, "object"), "spec"), pools = ls_member(request->settings, "pools");
	ls_u32 bits = 0;
	for (ls_iterator list = ls_each(spec); ls_next(&list);)
		if (ls_equal(list.name, "containers") || ls_equal(list.name, "initContainers")) bits |= requested_by(list.value, pools);
	for (ls_iterator pool = ls_each(pools); ls_next(&pool); bits >>= 1) {
		if (!(bits & 1)) continue;
		ls_value selector = ls_member(pool.value, "nodeSelector"), class = ls_member(pool.value, "runtimeClassName");
		for (ls_iterator label = ls_each(selector); ls_next(&label);)
			ls_merge_string(answer, "/spec/nodeSelector", label.name, ls_text_of(label.value));
		if (class.length) ls_set_string(answer, "/spec/runtimeClassName", ls_text_of(class));
	}
	return 0;
}
