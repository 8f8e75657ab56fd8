// Package quota keeps consumers within what they were granted (wire 2.5, P4.5): it knows which
// ShadowPods of a user are live, decides whether another one fits, and reserves its resources in
// the status of the user's Quota, so that several replicas decide as one (ADR 63).
//
// # Reservations
//
// Each replica computes the sum of the live ShadowPods from its own watch; finished and deleted ones
// use nothing. A reservation is written to the Quota's status before the request is admitted. A
// replica whose write conflicts reads the Quota and decides again. Requests that wait for the same
// Quota in one replica are written together.
//
// The replica that removes the reservation of an observed ShadowPod records its resource version in
// observedResourceVersion. Another replica decides from its own watch only when it has observed that
// version; it waits for 100 ms, then it lists the user's ShadowPods. A reservation whose ShadowPod
// does not appear expires after 90 s, since the API server ends requests after 60 s; before it is
// removed, the ShadowPods of the user are listed without a cache. This is what a rejection by
// another webhook costs. Several requests with one name count once: names are unique. So the grant
// does not bound reservations, and a Quota has at most 2,000: the status of one would fill the
// storage of the API server with small requests. Beyond that the webhook answers with an error, and
// the virtual kubelet tries again.
//
// # Rooms
//
// A write for one ShadowPod also reserves room for up to 32 more like it, at most an eighth of what
// is free. For ten seconds the replica admits ShadowPods from this room without a write, and it
// enlarges the room in the background before it is used up. One reservation, of the name of the
// replica, covers the room and what was admitted from it; the next write gives those ShadowPods
// reservations of their own. A room in which nothing happens is given back after two seconds; that
// of a replica that ends expires like each reservation. Where little is free, a replica
// reserves none, and each decision is written before it is answered. Room is not in status.used:
// nothing runs there.
//
// The replica that sees a new Quota first reserves an eighth of it, so that the first ShadowPods of a
// consumer do not wait for a write either. That room ends five minutes after the creation of the
// Quota, or two seconds after its first use.
//
// Other replicas cannot use the room. One that has a large ShadowPod may deny it for the seconds in
// which another has room; the virtual kubelet tries again. The first denial ends the first room of
// another replica. A smaller grant, or a cordon, is in force when the watch of a replica has it, ten
// seconds later at the latest (five minutes for a first room): a decision that is written has it at
// once.
//
// # Changes
//
// Other CPU and memory are reserved as those of a creation. A change that the API server would refuse
// in the pod is denied: an amount that is removed, another QoS class, the resources of an init
// container. The API server denies a deletion that keeps the pod (longshore-shadowpods), and does not
// send DELETE to the webhook.
//
// # What the cluster adds
//
// The overhead of a pod's RuntimeClass, and the default requests of LimitRanges, count from the decision
// on. What webhooks of this cluster add, such as a container, is known when the pod exists: the controller
// of the ShadowPod writes it to status.requests, where it counts. No pod ends for it; further ones are
// denied until they fit. So it is with pods that have not ended 30 seconds after their ShadowPods are gone:
// the manager writes what they hold to status.ending of the Quota.
//
// # Limits
//
// Clocks of replicas that differ by more than 30 s, or an API server with --request-timeout above
// 60 s, weaken the expiry. While an informer processes a list after a broken watch, its resource
// version may be ahead of its content for the time of that loop. In both cases one creation may be
// counted late; the next decision counts it. The reference has no status on Quotas, and ignores ours.
package quota
