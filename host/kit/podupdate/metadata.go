package podupdate

// MetadataAnnotation on a ShadowPod has two hashes: of what its labels and annotations were built from, and
// of them. A virtual kubelet that starts again asks no policy about a pod for which both are the same.
const MetadataAnnotation = "longshore.dev/metadata-source"
