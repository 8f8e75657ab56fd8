// The policy "gate" in C, with the SDK, at the three points beyond those of the default policies:
// objects of use at home are not sent, privileged pods and slices of other classes are denied.

#include "longshore.h"

#define SITE "example.com/site"
#define ORIGIN "example.com/origin"

static const ls_manifest manifest = {
	.name = "gate",
	.version = "1.0.0",
	.points = (const ls_point_manifest[]){
		{
			.point = "ResourceMutation",
			.reads = LS_LIST("/local/metadata/labels/example.com~1site", "/virtualNode/consumerClusterID"),
			.writes = (const ls_write_rule[]){{.path = "/metadata/annotations", .verbs = LS_LIST("merge"), .keys = LS_LIST(ORIGIN)}, {0}},
		},
		{
			.point = "ShadowPodAdmission",
			.reads = LS_LIST("/object/spec/containers[*]/name", "/object/spec/containers[*]/securityContext/privileged"),
		},
		{
			.point = "ResourceSliceAdmission",
			.reads = LS_LIST("/object/spec/class"),
		},
		{0},
	},
};

LS_MANIFEST(manifest)

LS_POINT(resource_mutation, "ResourceMutation")(const ls_request *request, ls_answer *answer) {
	ls_value labels = ls_member(ls_member(ls_member(request->facts, "local"), "metadata"), "labels");
	ls_value site = ls_member(labels, SITE);
	ls_text consumer = ls_text_of(ls_member(ls_member(request->facts, "virtualNode"), "consumerClusterID"));
	if (ls_is_string(site) && ls_equal(ls_text_of(site), "home")) {
		ls_writer message = {0};
		ls_write(&message, "it is of use in cluster ");
		ls_write_text(&message, consumer);
		ls_write(&message, " only");
		ls_skip(answer, "HomeOnly", LS_TEXT(message));
		return 0;
	}
	if (site.length > 0 && !(ls_is_string(site) && ls_equal(ls_text_of(site), "any")))
		return ls_fail("label " SITE " is not home or any");
	ls_merge_string(answer, "/metadata/annotations", ls_string(ORIGIN), consumer);
	return 0;
}

LS_POINT(shadow_pod_admission, "ShadowPodAdmission")(const ls_request *request, ls_answer *answer) {
	ls_iterator containers = ls_each(ls_member(ls_member(ls_member(request->facts, "object"), "spec"), "containers"));
	while (ls_next(&containers)) {
		if (!ls_is_true(ls_member(ls_member(containers.value, "securityContext"), "privileged"))) continue;
		ls_writer message = {0};
		ls_write(&message, "container ");
		ls_write_text(&message, ls_text_of(ls_member(containers.value, "name")));
		ls_write(&message, " is privileged");
		ls_deny(answer, "Privileged", LS_TEXT(message));
		return 0;
	}
	return 0;
}

LS_POINT(resource_slice_admission, "ResourceSliceAdmission")(const ls_request *request, ls_answer *answer) {
	ls_value class = ls_member(ls_member(ls_member(request->facts, "object"), "spec"), "class");
	if (!ls_is_string(class)) return 0;
	ls_text name = ls_text_of(class);
	if (name.length == 0 || ls_equal(name, "default")) return 0;
	ls_writer message = {0};
	ls_write(&message, "class ");
	ls_write_text(&message, name);
	ls_write(&message, " is not granted");
	ls_deny(answer, "UnknownClass", LS_TEXT(message));
	return 0;
}
