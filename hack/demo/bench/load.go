package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	podsPerDeployment = 50
	// plainWorkers is how many requests the plain client has under way. With ten it needs
	// about the time that the issue gives for it (burst.go).
	plainWorkers = 10
	plainOrigin  = "plain-client"
)

func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// podSpec is what each pod of the load runs: one small container, nothing mounted.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "app", Image: "registry.example/team/app:1.2.3",
			Env:   []corev1.EnvVar{{Name: "MODE", Value: "bench"}},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
		}},
	}
}

// deployments share out the pods, at most podsPerDeployment each.
func deployments(pods int) []*appsv1.Deployment {
	var all []*appsv1.Deployment
	for pods > 0 {
		replicas := min(pods, podsPerDeployment)
		all = append(all, deployment(offloaded, fmt.Sprintf("load-%02d", len(all)), replicas))
		pods -= replicas
	}
	return all
}

func deployment(namespace, name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}
}

// each does something for each of many objects, with so many requests under way, and returns the seconds that it took.
func each(ctx context.Context, concurrency, count int, do func(ctx context.Context, i int) error) (float64, error) {
	began := time.Now()
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range count {
		group.Go(func() error { return do(working, i) })
	}
	err := group.Wait()
	return time.Since(began).Seconds(), err
}

// createDeployments creates Deployments in the consumer.
func (w *testbed) createDeployments(ctx context.Context, all []*appsv1.Deployment) error {
	_, err := each(ctx, writers, len(all), func(ctx context.Context, i int) error {
		if _, err := w.rome.client.AppsV1().Deployments(all[i].Namespace).Create(ctx, all[i], metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a Deployment: %w", err)
		}
		return nil
	})
	return err
}

// createPods creates bare pods at a steady pace, in namespaces in turn.
func (w *testbed) createPods(ctx context.Context, namespaces []string, pods int, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range pods {
		namespace := namespaces[i%len(namespaces)]
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%04d", streamPrefix, i), Namespace: namespace, Labels: map[string]string{"app": streamPrefix}},
			Spec:       podSpec(),
		}
		if _, err := w.rome.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating pod %d of the stream: %w", i, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// removeLoad deletes all that the load made in the offloaded namespace and waits until
// both sides are empty.
func (w *testbed) removeLoad(ctx context.Context) error {
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := w.rome.client.AppsV1().Deployments(offloaded).DeleteCollection(ctx, background, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the Deployments: %w", err)
	}
	bare := metav1.ListOptions{LabelSelector: "app=" + streamPrefix}
	if err := w.rome.client.CoreV1().Pods(offloaded).DeleteCollection(ctx, metav1.DeleteOptions{}, bare); err != nil {
		return fmt.Errorf("deleting the pods of the stream: %w", err)
	}
	if err := w.rome.waitEmpty(ctx, offloaded); err != nil {
		return err
	}
	return w.milan.waitEmpty(ctx, w.remote)
}

// learnTemplate runs one pod through Longshore and keeps its ShadowPod; it warms
// everything up as well.
func (w *testbed) learnTemplate(ctx context.Context) error {
	shadows, err := w.milan.watchShadowPods(ctx, w.remote)
	if err != nil {
		return err
	}
	locals, err := w.rome.watchPods(ctx, offloaded)
	if err != nil {
		return err
	}
	if err := w.createDeployments(ctx, deployments(1)); err != nil {
		return err
	}
	if _, err := shadows.wait(ctx, 1); err != nil {
		return fmt.Errorf("waiting for the first ShadowPod: %w", err)
	}
	if _, err := locals.running.wait(ctx, 1); err != nil {
		return fmt.Errorf("waiting for the first pod to run: %w", err)
	}
	list := &offloadingv1beta1.ShadowPodList{}
	if err := w.milan.List(ctx, list, client.InNamespace(w.remote)); err != nil {
		return fmt.Errorf("reading the first ShadowPod: %w", err)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("the first ShadowPod in %q is gone", w.remote)
	}
	w.template = &list.Items[0]
	return w.removeLoad(ctx)
}

// plainShadowPod is the template's equal, with another origin.
func plainShadowPod(template *offloadingv1beta1.ShadowPod, index int) *offloadingv1beta1.ShadowPod {
	labels := maps.Clone(template.Labels)
	labels[offloadingv1beta1.OriginLabel] = plainOrigin
	return &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("plain-%04d", index), Namespace: plain,
			Labels: labels, Annotations: maps.Clone(template.Annotations),
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// createPlain is the plain client.
func (w *testbed) createPlain(ctx context.Context, pods int) error {
	_, err := each(ctx, plainWorkers, pods, func(ctx context.Context, i int) error { return w.milan.Create(ctx, plainShadowPod(w.template, i)) })
	if err != nil {
		return fmt.Errorf("creating ShadowPods as a plain client: %w", err)
	}
	return nil
}

// removePlain is the plain client that takes away what it made, one by one.
func (w *testbed) removePlain(ctx context.Context, pods int) error {
	_, err := each(ctx, plainWorkers, pods, func(ctx context.Context, i int) error { return w.milan.Delete(ctx, plainShadowPod(w.template, i)) })
	if err != nil {
		return fmt.Errorf("deleting ShadowPods as a plain client: %w", err)
	}
	return w.milan.waitEmpty(ctx, plain)
}

// admitPlainClient makes the namespace of the plain client one of a consumer, and gives its user a
// Quota: the provider's webhook accepts no other ShadowPods.
func (s *side) admitPlainClient(ctx context.Context) error {
	review, err := s.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("reading the user of the plain client: %w", err)
	}
	namespace := namespaceObject(plain)
	namespace.Labels = map[string]string{liqocorev1beta1.RemoteClusterIDLabel: plainOrigin}
	resources := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage} {
		resources[name] = resource.MustParse("1Ti")
	}
	quota := &offloadingv1beta1.Quota{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.GroupVersion.String(), Kind: "Quota"},
		ObjectMeta: metav1.ObjectMeta{Namespace: plain, Name: plainOrigin},
		Spec: offloadingv1beta1.QuotaSpec{
			User: review.Status.UserInfo.Username, LimitsEnforcement: offloadingv1beta1.NoLimitsEnforcement, Resources: resources,
		},
	}
	if err := s.Apply(ctx, namespace); err != nil {
		return err
	}
	return s.Apply(ctx, quota)
}
