package v1beta1

// PermanentlyUnreachable reports whether an administrator declared the cluster permanently
// unreachable and its API server does not answer, or declared that this is the same. Only then
// may finalizers be removed without the cluster.
func (fc *ForeignCluster) PermanentlyUnreachable() bool {
	switch fc.Annotations[PermanentlyUnreachableAnnotation] {
	case "true":
	case UnreachableAlthoughItAnswers:
		return true
	default:
		return false
	}
	for _, c := range fc.Status.Conditions {
		if c.Type == APIServerStatusCondition {
			return c.Status != ConditionStatusEstablished
		}
	}
	return true
}
