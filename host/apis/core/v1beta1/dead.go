package v1beta1

// PermanentlyUnreachable reports whether an administrator gave the cluster up for good
// while its API server does not answer (wire P2.11, end): only then may its objects
// be let go without its consent.
func (fc *ForeignCluster) PermanentlyUnreachable() bool {
	if fc.Annotations[PermanentlyUnreachableAnnotation] != "true" {
		return false
	}
	for _, c := range fc.Status.Conditions {
		if c.Type == APIServerStatusCondition {
			return c.Status != ConditionStatusEstablished
		}
	}
	return true
}
