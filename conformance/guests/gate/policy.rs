//! The policy "gate" in Rust, with the SDK: as in policy.c.

mod longshore;

use longshore::{Answer, Manifest, Point, PointManifest, Request, Verb, Write};

const SITE: &str = "example.com/site";
const ORIGIN: &str = "example.com/origin";

const MANIFEST: Manifest = Manifest {
    name: "gate",
    version: "1.0.0",
    points: &[
        PointManifest {
            reads: &["/local/metadata/labels/example.com~1site", "/virtualNode/consumerClusterID"],
            writes: &[Write { path: "/metadata/annotations", verbs: &[Verb::Merge], keys: &[ORIGIN] }],
            ..PointManifest::of(Point::ResourceMutation)
        },
        PointManifest {
            reads: &["/object/spec/containers[*]/name", "/object/spec/containers[*]/securityContext/privileged"],
            ..PointManifest::of(Point::ShadowPodAdmission)
        },
        PointManifest { reads: &["/object/spec/class"], ..PointManifest::of(Point::ResourceSliceAdmission) },
    ],
};

longshore::manifest!(MANIFEST);
longshore::point!(ResourceMutation, mark);
longshore::point!(ShadowPodAdmission, guard);
longshore::point!(ResourceSliceAdmission, grant);

fn mark(request: &Request, answer: &mut Answer) -> Result<(), String> {
    let site = request.facts.get("local").get("metadata").get("labels").get(SITE);
    let consumer = request.facts.get("virtualNode").get("consumerClusterID").text().unwrap_or_default();
    match site.text().as_deref() {
        Some("home") => answer.skip("HomeOnly", &format!("it is of use in cluster {consumer} only")),
        Some("any") => answer.merge_string("/metadata/annotations", ORIGIN, &consumer),
        None if !site.exists() => answer.merge_string("/metadata/annotations", ORIGIN, &consumer),
        _ => return Err(format!("label {SITE} is not home or any")),
    }
    Ok(())
}

fn guard(request: &Request, answer: &mut Answer) -> Result<(), String> {
    for container in request.facts.get("object").get("spec").get("containers").items() {
        if container.get("securityContext").get("privileged").is_true() {
            let name = container.get("name").text().unwrap_or_default();
            answer.deny("Privileged", &format!("container {name} is privileged"));
            break;
        }
    }
    Ok(())
}

fn grant(request: &Request, answer: &mut Answer) -> Result<(), String> {
    let class = request.facts.get("object").get("spec").get("class").text().unwrap_or_default();
    if !class.is_empty() && class != "default" {
        answer.deny("UnknownClass", &format!("class {class} is not granted"));
    }
    Ok(())
}
