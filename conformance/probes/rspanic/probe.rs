//! A Rust policy that reads behind the end of a list, or wants more memory than there is. The SDK hands
//! the message of the panic to the host.

mod longshore;

use longshore::{Answer, Manifest, Moment, Point, PointManifest, Request};

const MANIFEST: Manifest = Manifest {
    name: "probe",
    version: "1.0.0",
    points: &[PointManifest { moments: &[Moment::Admission], reads: &["/object/metadata"], ..PointManifest::of(Point::PodMutation) }],
};

longshore::manifest!(MANIFEST);
longshore::point!(PodMutation, give_up);

fn give_up(request: &Request, _: &mut Answer) -> Result<(), String> {
    let length = request.facts.json().len();
    if length > 4096 {
        let mut text = String::with_capacity(length << 16);
        text.push_str(request.facts.json());
        return Err(text);
    }
    if length > 900 {
        let pools = ["a", "b"];
        return Err(pools[length].into());
    }
    Ok(())
}
