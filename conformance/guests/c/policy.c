// The policy "accelerator" in C, with the SDK: a pod that selects nodes with an accelerator
// gets the toleration of their taint.

#include "longshore.h"

static const ls_manifest manifest = {
	.name = "accelerator",
	.version = "1.0.0",
	.points = (const ls_point_manifest[]){
		{
			.point = "PodMutation",
			.moments = LS_LIST("Admission"),
			.reads = LS_LIST("/object/spec/nodeSelector"),
			.writes = (const ls_write_rule[]){{.path = "/spec/tolerations", .verbs = LS_LIST("ensure")}, {0}},
		},
		{0},
	},
};

LS_MANIFEST(manifest)

LS_POINT(pod_mutation, "PodMutation")(const ls_request *request, ls_answer *answer) {
	static const char *const path[] = {"object", "spec", "nodeSelector", "accelerator"};
	ls_value kind = request->facts;
	for (int i = 0; i < 4; i++) kind = ls_member(kind, path[i]);
	if (!kind.length) return 0;
	if (!ls_is_string(kind)) return ls_fail("spec.nodeSelector.accelerator is not a string");
	ls_writer w = {0, 0, 0};
	ls_write(&w, "[{\"key\":\"accelerator\",\"operator\":\"Equal\",\"value\":");
	ls_write_string(&w, ls_text_of(kind));
	ls_write(&w, ",\"effect\":\"NoSchedule\"}]");
	ls_ensure(answer, "/spec/tolerations", LS_TEXT(w));
	return 0;
}
