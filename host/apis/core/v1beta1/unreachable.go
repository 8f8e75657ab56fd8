package v1beta1

// PermanentlyUnreachable reports whether an administrator declared the cluster permanently
// unreachable and its API server does not answer (wire P2.11). Only then may finalizers be
// removed without the cluster.
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
