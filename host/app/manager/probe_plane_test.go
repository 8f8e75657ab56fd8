package manager_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	appscheme "github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

const (
	soon = 2 * time.Minute
	tick = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// consumerOf returns a client of a plane that has the CRDs and the rights of the chart.
func consumerOf(t *testing.T, connection *rest.Config) client.Client {
	t.Helper()
	kinds, err := appscheme.New()
	require.NoError(t, err)
	rome, err := client.New(connection, client.Options{Scheme: kinds})
	require.NoError(t, err)
	planetest.InstallCRDs(t, connection)
	chartrights.Install(t, connection, "network")
	return rome
}

// asManager returns the configuration of the manager with the rights of the chart.
func asManager(t *testing.T, connection *rest.Config) *rest.Config {
	t.Helper()
	return chartrights.As(t, connection, chartrights.Namespace, chartrights.Manager)
}

// printed returns the rows that kubectl get foreignclusters prints.
func printed(t planetest.T, connection *rest.Config) string {
	t.Helper()
	config := rest.CopyConfig(connection)
	config.GroupVersion, config.APIPath = &schema.GroupVersion{Group: "core.liqo.io", Version: "v1beta1"}, "/apis"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	require.NoError(t, err)
	raw, err := c.Get().Resource("foreignclusters").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, yaml.Unmarshal(raw, table))
	var rows []string
	for _, row := range table.Rows {
		var cells []string
		for i, column := range table.ColumnDefinitions {
			if column.Name == "Name" || column.Name == "API Server" {
				cell, _ := row.Cells[i].(string)
				cells = append(cells, cell)
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return strings.Join(rows, "\n")
}

// TestTheForeignClusterSaysWhetherTheProviderAnswers takes the provider away and brings it back.
func TestTheForeignClusterSaysWhetherTheProviderAnswers(t *testing.T) {
	planes := planetest.ForTests(t, "rome", "milan")
	connection := planes[0].RESTConfig()
	rome := consumerOf(t, connection)
	proxy, err := faultproxy.Start(planes[1].Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	certificate, key, err := planes[1].IssueClientCert("rome", []string{"liqo.io"})
	require.NoError(t, err)
	kubeconfig, err := planes[1].KubeconfigFor(proxy.URL(), certificate, key)
	require.NoError(t, err)

	app, err := manager.New(manager.Options{
		ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1, PingInterval: time.Second, PingTimeout: time.Second,
		Options: process.Options{Config: asManager(t, connection), ClusterID: "rome", Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, app.Run(ctx)) })
	t.Cleanup(func() { cancel(); done.Wait() })

	require.NoError(t, rome.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "liqo-tenant-milan", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/tenant-namespace": "true"},
	}}))
	require.NoError(t, rome.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig-controlplane-milan", Namespace: "liqo-tenant-milan", Labels: map[string]string{
			"liqo.io/remote-cluster-id": "milan", "liqo.io/identity-type": "ControlPlane",
		}, Annotations: map[string]string{"liqo.io/remote-tenant-namespace": "liqo-tenant-rome"}},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	}))
	says := func(want string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool { return printed(t, connection) == want }, soon, tick, "kubectl prints %q", want)
	}
	says("milan Established")
	proxy.Cut(faultproxy.Blackhole)
	says("milan Error")
	proxy.Heal()
	says("milan Established")
}
