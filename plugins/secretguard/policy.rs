//! The policy secret-guard: Secrets of some types and names stay in the consumer cluster, and
//! some keys of the others. README.md explains how to build and load it.

mod longshore;

use longshore::{Answer, Manifest, Point, PointManifest, Request, Value, Verb, Write};
use std::borrow::Cow;

/// Declares no path below /object/data: the policy decides about Secrets that it cannot read.
const MANIFEST: Manifest = Manifest {
    name: "secret-guard",
    version: "1.0.0",
    points: &[PointManifest {
        reads: &["/object/apiVersion", "/object/kind", "/object/type", "/local/metadata/name"],
        writes: &[Write { path: "/data", verbs: &[Verb::Remove], keys: &[] }],
        ..PointManifest::of(Point::ResourceMutation)
    }],
};

longshore::manifest!(MANIFEST);
longshore::settings!(check);
longshore::point!(ResourceMutation, guard);

/// The most items of a list: a remove takes 1,024 keys.
const MAX_ITEMS: usize = 1024;

/// The form of spec.settings.
#[derive(Default)]
struct Config<'a> {
    /// The types of Secrets that stay.
    types: Vec<Cow<'a, str>>,
    /// Patterns for the names of Secrets that stay.
    names: Vec<Cow<'a, str>>,
    /// The keys that stay of Secrets that leave.
    keys: Vec<Cow<'a, str>>,
}

impl<'a> Config<'a> {
    fn read(settings: Value<'a>) -> Result<Config<'a>, String> {
        if !settings.exists() || settings.is_null() {
            return Err("spec.settings is missing: the policy would do nothing".into());
        }
        if !settings.is_object() {
            return Err("spec.settings: want an object".into());
        }
        let mut config = Config::default();
        for (field, value) in settings.members() {
            let list = match &*field {
                "types" => &mut config.types,
                "names" => &mut config.names,
                "keys" => &mut config.keys,
                _ => return Err(format!("spec.settings.{field}: unknown field, want types, names or keys")),
            };
            *list = texts(&field, value)?;
        }
        if config.types.is_empty() && config.names.is_empty() && config.keys.is_empty() {
            return Err("spec.settings has no types, names or keys: the policy would do nothing".into());
        }
        Ok(config)
    }
}

/// Reads a list of texts.
fn texts<'a>(field: &str, list: Value<'a>) -> Result<Vec<Cow<'a, str>>, String> {
    if !list.is_list() {
        return Err(format!("spec.settings.{field}: want a list"));
    }
    let mut texts = Vec::new();
    for (i, item) in list.items().enumerate() {
        match item.text() {
            Some(text) if !text.is_empty() => texts.push(text),
            _ => return Err(format!("spec.settings.{field}[{i}]: want a string that is not empty")),
        }
    }
    if texts.len() > MAX_ITEMS {
        return Err(format!("spec.settings.{field} has more than {MAX_ITEMS} items"));
    }
    Ok(texts)
}

/// Refuses settings when they are written.
fn check(settings: Value) -> Result<(), String> {
    Config::read(settings).map(|_| ())
}

/// Answers the point.
fn guard(request: &Request, answer: &mut Answer) -> Result<(), String> {
    let config = Config::read(request.settings)?;
    let object = request.facts.get("object");
    if fact("object.kind", object.get("kind"))? != "Secret" || fact("object.apiVersion", object.get("apiVersion"))? != "v1" {
        return Ok(());
    }
    let mut kind = fact("object.type", object.get("type"))?;
    if kind.is_empty() {
        kind = "Opaque".into(); // As in Kubernetes.
    }
    let name = fact("local.metadata.name", request.facts.get("local").get("metadata").get("name"))?;
    if config.types.contains(&kind) {
        answer.skip("SecretTypeStays", &format!("Secrets of type {kind} stay in this cluster: remove the Secret from the pods that run in another one"));
    } else if let Some(pattern) = config.names.iter().find(|pattern| matches(pattern, &name)) {
        answer.skip("SecretNameStays", &format!("Secrets named {pattern} stay in this cluster: remove the Secret from the pods that run in another one"));
    } else if !config.keys.is_empty() {
        let keys: Vec<&str> = config.keys.iter().map(|key| &**key).collect();
        answer.remove_keys("/data", &keys);
    }
    Ok(())
}

/// Returns a fact that is a string, and an empty one when it is absent.
fn fact<'a>(path: &str, value: Value<'a>) -> Result<Cow<'a, str>, String> {
    if !value.exists() || value.is_null() {
        return Ok(Cow::Borrowed(""));
    }
    value.text().ok_or_else(|| format!("{path} is not a string"))
}

/// Reports whether a name matches a pattern, in which * stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let (head, tail) = match pattern.split_once('*') {
        Some(halves) => halves,
        None => return pattern == name,
    };
    let (middle, end) = tail.rsplit_once('*').unwrap_or(("", tail));
    let rest = name.strip_prefix(head).and_then(|rest| middle.split('*').try_fold(rest, |rest, part| rest.find(part).map(|at| &rest[at + part.len()..])));
    rest.map_or(false, |rest| rest.ends_with(end))
}
