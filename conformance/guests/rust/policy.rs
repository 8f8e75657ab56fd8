//! The policy "accelerator" in Rust, with the SDK: a pod that selects nodes with an accelerator
//! gets the toleration of their taint.

mod longshore;

use longshore::{quote, Answer, Manifest, Moment, Point, PointManifest, Request, Verb, Write};

const MANIFEST: Manifest = Manifest {
    name: "accelerator",
    version: "1.0.0",
    points: &[PointManifest {
        moments: &[Moment::Admission],
        reads: &["/object/spec/nodeSelector"],
        writes: &[Write { path: "/spec/tolerations", verbs: &[Verb::Ensure], keys: &[] }],
        ..PointManifest::of(Point::PodMutation)
    }],
};

longshore::manifest!(MANIFEST);
longshore::point!(PodMutation, tolerate);

fn tolerate(request: &Request, answer: &mut Answer) -> Result<(), String> {
    let kind = request.facts.get("object").get("spec").get("nodeSelector").get("accelerator");
    if !kind.exists() {
        return Ok(());
    }
    let kind = kind.text().ok_or("spec.nodeSelector.accelerator is not a string")?;
    answer.ensure("/spec/tolerations", &format!(r#"[{{"key":"accelerator","operator":"Equal","value":{},"effect":"NoSchedule"}}]"#, quote(&kind)));
    Ok(())
}
