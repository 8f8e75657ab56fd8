package processnode_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// playServer answers with its address, and is not ready from the first PUT on.
func playServer() error {
	var unready atomic.Bool
	handler := http.NewServeMux()
	handler.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getenv("POD_IP")) })
	handler.HandleFunc("PUT /", func(http.ResponseWriter, *http.Request) { unready.Store(true) })
	handler.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if unready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: net.JoinHostPort(os.Getenv("POD_IP"), "8080"), ReadHeaderTimeout: patience, Handler: handler}
	return server.ListenAndServe()
}

// serve makes a Deployment of two replicas and the Service before them.
func (r *rig) serve(t *testing.T, address string) (url string) {
	t.Helper()
	_, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	labels := map[string]string{"app": "server"}
	_, err = r.client.CoreV1().Services("apps").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: address, Selector: labels,
			Ports: []corev1.ServicePort{{Port: 9090, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = r.client.AppsV1().Deployments("apps").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](5),
				Containers: []corev1.Container{{
					Name: "server", Image: "test/server:1",
					Env:   []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}},
				}},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return "http://" + net.JoinHostPort(address, "9090") + "/"
}

func reserve(t *testing.T) string {
	t.Helper()
	address, err := testplane.ReserveAddress()
	require.NoError(t, err)
	t.Cleanup(address.Release)
	return address.IP
}

// client opens a connection for each request.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func ask(t planetest.T, method, url string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// answering returns the pods that answer a number of requests, none of which fails.
func answering(t *testing.T, url string) (addresses []string) {
	t.Helper()
	for range 6 {
		address, err := ask(t, http.MethodGet, url)
		require.NoError(t, err)
		if !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

func (r *rig) servers(t planetest.T, ok func(*corev1.Pod) bool) (addresses []string, pods []corev1.Pod) {
	t.Helper()
	list, err := r.client.CoreV1().Pods("apps").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, pod := range list.Items {
		if ok(&pod) {
			addresses, pods = append(addresses, pod.Status.PodIP), append(pods, pod)
		}
	}
	slices.Sort(addresses)
	return addresses, pods
}

func serverReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready
}

func TestConnectionsToAServiceReachThePodsThatAreReady(t *testing.T) {
	r := start(t)
	t.Cleanup(r.stop)
	url := r.serve(t, reserve(t))
	var pods []corev1.Pod
	var addresses []string
	planetest.Until(t, func(t planetest.T) bool { addresses, pods = r.servers(t, serverReady); return len(pods) == 2 }, patience, every)
	require.NotEqual(t, addresses[0], addresses[1])
	reached := func(want ...string) func() bool {
		slices.Sort(want)
		return func() bool { return slices.Equal(answering(t, url), want) }
	}
	planetest.Until(t, func(t planetest.T) bool { _, err := ask(t, http.MethodGet, url); return err == nil }, patience, every)
	require.Eventually(t, reached(addresses...), patience, every, "both are reached")

	first, second := &pods[0], &pods[1]
	_, err := ask(t, http.MethodPut, "http://"+net.JoinHostPort(first.Status.PodIP, "8080"))
	require.NoError(t, err)
	require.Eventually(t, reached(second.Status.PodIP), patience, every, "one that is not ready is passed over")

	// Its successor gets an address of its own beside it.
	require.NoError(t, r.client.CoreV1().Pods("apps").Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	planetest.Until(t, func(t planetest.T) bool { addresses, pods = r.servers(t, serverReady); return len(pods) == 2 }, patience, every)
	assert.NotContains(t, addresses, first.Status.PodIP)
	require.Eventually(t, reached(addresses...), patience, every, "a new one is reached")

	var pid int
	_, err = fmt.Sscanf(second.Status.ContainerStatuses[0].ContainerID, "process://%d", &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, patience, time.Millisecond)
	_ = answering(t, url) // None fails, whether or not status has changed.
	require.Eventually(t, reached(addresses...), patience, every, "it starts again and is reached again")

	require.NoError(t, r.client.AppsV1().Deployments("apps").Delete(t.Context(), "server", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
	planetest.Until(t, func(t planetest.T) bool {
		_, err := ask(t, http.MethodGet, url)
		return errors.Is(err, syscall.ECONNREFUSED)
	}, patience, every)
}

func TestAnAddressThatIsTakenIsReportedAndServedLater(t *testing.T) {
	r := start(t)
	t.Cleanup(r.stop)
	address := reserve(t)
	taken, err := net.Listen("tcp", net.JoinHostPort(address, "9090"))
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	url := r.serve(t, address)
	planetest.Until(t, func(t planetest.T) bool {
		events, err := r.client.CoreV1().Events("apps").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=ServiceNotServed,involvedObject.name=server"})
		return assert.NoError(t, err) && len(events.Items) > 0
	}, patience, every)
	require.NoError(t, taken.Close())
	planetest.Until(t, func(t planetest.T) bool { _, err := ask(t, http.MethodGet, url); return err == nil }, patience, every)
}
