package processnode_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/conformance/testplane/processnode"
)

const (
	patience = 2 * time.Minute
	every    = 50 * time.Millisecond
)

// TestMain lets the test binary play the container as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "play-container" {
		if err := playContainer(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "play-server" {
		fmt.Fprintln(os.Stderr, playServer())
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == "play-node" {
		if err := processnode.PlayNode(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playContainer asks the API server for its user and for a denied request, crashes once,
// and then serves its health check.
func playContainer(args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, allowed := client.CoreV1().ConfigMaps("apps").List(ctx, metav1.ListOptions{})
	_, refused := client.CoreV1().Secrets("apps").List(ctx, metav1.ListOptions{})
	setting, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	fmt.Printf("user=%s allowed=%v forbidden=%v setting=%s greeting=%s\n",
		me.Status.UserInfo.Username, allowed == nil, apierrors.IsForbidden(refused), setting, os.Getenv("GREETING"))
	marker := filepath.Join(os.Getenv("MARKERS"), "crashed")
	if _, err := os.Stat(marker); err != nil {
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			return err
		}
		os.Exit(3)
	}
	server := &http.Server{Addr: net.JoinHostPort(os.Getenv("POD_IP"), "8080"), ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
	return server.ListenAndServe()
}

type rig struct {
	client kubernetes.Interface
	logs   string
	stop   func()
}

func start(t *testing.T) *rig {
	t.Helper()
	cluster := planetest.ForTest(t, "processes")
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	r := &rig{client: client, logs: t.TempDir()}
	node, err := processnode.New(processnode.Options{
		Name: "here", Config: cluster.RESTConfig(), Dir: t.TempDir(), LogDir: r.logs,
		Images: map[string]processnode.Program{
			"test/self": {Path: self, Args: []string{"play-container"}}, "test/server": {Path: self, Args: []string{"play-server"}},
		},
		Address: func() (string, func(), error) {
			address, err := testplane.ReserveAddress()
			if err != nil {
				return "", nil, err
			}
			return address.IP, address.Release, nil
		},
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("10")},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	r.stop = func() {
		cancel()
		assert.NoError(t, <-ended)
	}
	select {
	case <-node.Ready():
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "the node does not become ready")
	}
	return r
}

func (r *rig) create(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	_, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = r.client.CoreV1().ServiceAccounts("apps").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "app"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = r.client.RbacV1().Roles("apps").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = r.client.RbacV1().RoleBindings("apps").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "app"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "app"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "app", Namespace: "apps"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	labels := map[string]string{"app": "app"}
	_, err = r.client.AppsV1().Deployments("apps").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: "app", TerminationGracePeriodSeconds: ptr.To[int64](5),
				Volumes: []corev1.Volume{
					{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
					{Name: "markers", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				},
				Containers: []corev1.Container{{
					Name: "app", Image: "test/self:1", Args: []string{"/etc/settings/value"},
					Env: []corev1.EnvVar{
						{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
						{Name: "GREETING", Value: "hello-$(POD_IP)"}, {Name: "MARKERS", Value: "/markers"},
					},
					Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					VolumeMounts: []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/settings"}, {Name: "markers", MountPath: "/markers"}},
					ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}}},
				}},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (r *rig) pod(t planetest.T) *corev1.Pod {
	t.Helper()
	list, err := r.client.CoreV1().Pods("apps").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func (r *rig) waitFor(t *testing.T, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	planetest.Until(t, func(t planetest.T) bool {
		pod = r.pod(t)
		return ok(pod) || assert.Fail(t, what, "the pod is %+v", pod)
	}, patience, every, what)
	return pod
}

func TestADeploymentRunsAsAProcessWithItsServiceAccount(t *testing.T) {
	r := start(t)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			r.stop()
		}
	})
	r.create(t)

	r.waitFor(t, "a missing ConfigMap holds the container back and is named", func(pod *corev1.Pod) bool {
		return pod != nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
			strings.Contains(pod.Status.ContainerStatuses[0].State.Waiting.Message, `configmap "settings"`)
	})
	_, err := r.client.CoreV1().ConfigMaps("apps").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"value": "blue"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	pod := r.waitFor(t, "it crashes once, starts again and becomes ready", func(pod *corev1.Pod) bool {
		return pod != nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
	})
	status := pod.Status.ContainerStatuses[0]
	assert.Equal(t, int32(1), status.RestartCount)
	require.NotNil(t, status.LastTerminationState.Terminated)
	assert.Equal(t, int32(3), status.LastTerminationState.Terminated.ExitCode)

	content, err := os.ReadFile(filepath.Join(r.logs, "apps_"+pod.Name+"_app.log"))
	require.NoError(t, err)
	assert.Contains(t, string(content), fmt.Sprintf(
		"user=system:serviceaccount:apps:app allowed=true forbidden=true setting=blue greeting=hello-%s", pod.Status.PodIP))

	var pid int
	_, err = fmt.Sscanf(status.ContainerID, "process://%d", &pid)
	require.NoError(t, err)
	require.NoError(t, r.client.AppsV1().Deployments("apps").Delete(t.Context(), "app", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	r.waitFor(t, "a deleted pod goes", func(pod *corev1.Pod) bool { return pod == nil })
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "and its process with it")
	r.stop()
	stopped = true
}
