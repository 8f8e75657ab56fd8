package processnode

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// unsupported returns an error with every field of the pod that a process node cannot
// honor; nil if the pod can run.
func unsupported(spec *corev1.PodSpec) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.Projected == nil && v.DownwardAPI == nil {
			refuse("the process node has no volumes of the type of volume %q: use configMap, secret, projected, downwardAPI or emptyDir", v.Name)
		}
	}
	if len(spec.ReadinessGates) > 0 {
		refuse("the process node knows no readinessGates")
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].RestartPolicy != nil {
			refuse("the process node knows no sidecars: init container %q has a restartPolicy", spec.InitContainers[i].Name)
		}
		errs = append(errs, unsupportedContainer(&spec.InitContainers[i])...)
	}
	for i := range spec.Containers {
		errs = append(errs, unsupportedContainer(&spec.Containers[i])...)
	}
	return errors.Join(errs...)
}

func unsupportedContainer(c *corev1.Container) (errs []error) {
	for kind, probe := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe, "startup": c.StartupProbe} {
		if probe != nil && probe.HTTPGet == nil && probe.TCPSocket == nil {
			errs = append(errs, fmt.Errorf("the process node knows httpGet and tcpSocket probes only: container %q has another %s probe", c.Name, kind))
		}
	}
	if c.Lifecycle != nil {
		errs = append(errs, fmt.Errorf("the process node knows no lifecycle hooks: container %q has one", c.Name))
	}
	if len(c.VolumeDevices) > 0 {
		errs = append(errs, fmt.Errorf("the process node has no devices: container %q has volumeDevices", c.Name))
	}
	return errs
}
