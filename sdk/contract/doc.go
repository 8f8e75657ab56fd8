// Package contract is the one typed contract between the Longshore host and a
// policy module: the requests of the host, and the answers of a policy.
//
// A policy is a pure function from facts to operations. The host encodes a
// [Request] as JSON, the module answers with a [Response] as JSON; nothing else
// crosses the border. The package depends on the standard library only, so that
// an author who imports it gets no other module.
//
// The types here are deliberately small: a guest that links k8s.io/api is five
// times as large and compiles ten times as long. Fields that these types do not
// know are not lost, because an answer is a list of operations on the object the
// host holds, never the object itself.
package contract
