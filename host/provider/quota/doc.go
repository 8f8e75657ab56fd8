// Package quota keeps consumers within what they were granted: it knows which
// ShadowPods of a user are live, decides whether another one fits, and reserves its resources in
// the status of the user's Quota, so that several replicas decide as one.
//
// # Reservations
//
// Each replica computes the sum of the live ShadowPods from its own watch; finished and deleted ones
// use nothing. A reservation is written to the Quota's status before the request is admitted. A
// replica whose write conflicts reads the Quota and decides again. Requests that wait for the same
// Quota in one replica are decided together, and written at once: a smaller grant, or a cordon, holds for
// each decision that is written after it.
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
// denied until they fit.
//
// # What ends
//
// A ShadowPod that is deleted counts until its pod has ended, whose grace period the consumer chooses. Each
// replica remembers the ShadowPods that it has seen deleted. The manager writes what pods hold whose
// ShadowPods are gone to status.ending of the Quota, and the resource version of the newest deletion that
// this accounts for; a replica then forgets the deletions until that version. The manager collects for two
// seconds, so that any number of ends is one write. A deletion of which it says nothing counts for 90 s: it
// was not there, or the replica had to list, and does not know the version of the deletion.
//
// # What is abandoned
//
// A consumer deletes a ResourceSlice, and the garbage collector its Quota, while ShadowPods and pods of its user
// run. Nothing ends them but the consumer or an administrator. The manager writes what they hold to
// status.abandoned of every Quota of the consumer, where it is taken until they have ended, or until a slice of
// that name exists again. A Quota ceases to count when its slice is gone, not when the garbage collector finds it:
// the manager sees that a slice was deleted before it sees those that were created afterwards. A new Quota is
// cordoned until its status says what is abandoned. So a consumer never uses more than the slices were granted that
// existed at the same time. The label of the remote namespaces says whose pods they are; ShadowPods without a
// creator label count nowhere. A ShadowPod of which the manager's watch does not know yet when a new slice is granted
// counts there two seconds after its event.
//
// # Limits
//
// Clocks of replicas that differ by more than 30 s, or an API server with --request-timeout above
// 60 s, weaken the expiry. While an informer processes a list after a broken watch, its resource
// version may be ahead of its content for the time of that loop. In both cases one creation may be
// counted late; the next decision counts it. A replica that starts does not know of deletions for which the
// manager still collects: their pods count two seconds later. The reference has no status on Quotas, and ignores ours.
package quota
