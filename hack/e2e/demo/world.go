package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/hack/e2e/clusters"
	"github.com/longshore-dev/longshore/hack/e2e/isolate"
	"github.com/longshore-dev/longshore/hack/e2e/node"
)

// shop is what is offloaded: a Deployment with a Service.
const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: offloading.liqo.io/v1beta1
kind: NamespaceOffloading
metadata: {name: offloading, namespace: shop}
spec: {podOffloadingStrategy: Remote}
`

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: longshore/e2e-app:1
        args: [serve]
        env:
        - {name: GREETING, value: runs in a container of milan}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: app, image: "longshore/e2e-app:1", args: [serve]}]
`

// world is both clusters.
type world struct {
	out   *console.Console
	nodes map[string]*node.Node
}

// runWorld starts the clusters, shows the demo, and stays until it is killed.
func runWorld() error {
	for _, descriptor := range []int{lockDescriptor, readyDescriptor} {
		unix.CloseOnExec(descriptor)
	}
	if err := isolate.Enter(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := &world{out: console.New(os.Stdout), nodes: map[string]*node.Node{}}
	if err := w.show(ctx); err != nil {
		return err
	}
	if err := detach(); err != nil {
		return err
	}
	<-ctx.Done()
	// A node ends with the pipe to it, which the garbage collector closes with the last reference.
	runtime.KeepAlive(w)
	return nil
}

// detach lets the command end: what is printed from now on is in a file.
func detach() error {
	log, err := os.Create(path("demo.log"))
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	for _, descriptor := range []int{1, 2} {
		if err := unix.Dup2(int(log.Fd()), descriptor); err != nil {
			return fmt.Errorf("writing to the log: %w", err)
		}
	}
	ready := os.NewFile(readyDescriptor, "ready")
	_, err = ready.Write([]byte{1})
	if err := errors.Join(err, ready.Close()); err != nil {
		return fmt.Errorf("telling that the demo is ready: %w", err)
	}
	return nil
}

func (w *world) show(ctx context.Context) error {
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Starting clusters rome (consumer) and milan (provider), each with a real node", w.start},
		{"Installing cluster DNS and metrics-server in both", w.onBoth(func(ctx context.Context, n *node.Node) error {
			return files.InstallAddons(ctx, n.Config.Name, n.Kubeconfig())
		})},
		{"Installing Longshore from charts/longshore in both clusters", w.onBoth(func(ctx context.Context, n *node.Node) error {
			return clusters.Install(ctx, n, files.Current(), map[string]any{})
		})},
		{"Peering rome with milan (longshorectl peer)", w.peer},
		{"Offloading namespace shop", w.offload},
		{"Running the shop: every pod of it runs in milan", w.run},
	} {
		if err := w.out.Step(step.title, func(func(string)) error { return step.run(ctx) }); err != nil {
			return err
		}
	}
	return w.report(ctx)
}

// onBoth does something in both clusters at once.
func (w *world) onBoth(do func(context.Context, *node.Node) error) func(context.Context) error {
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, n := range w.nodes {
			group.Go(func() error { return do(ctx, n) })
		}
		return group.Wait()
	}
}

func (w *world) start(ctx context.Context) error {
	if err := node.ConnectNodes(ctx, clusters.Gateway, clusters.PrefixLength); err != nil {
		return err
	}
	for _, name := range []string{clusters.Consumer, clusters.Provider} {
		config, err := files.Config("", name)
		if err != nil {
			return err
		}
		if w.nodes[name], err = node.Start(ctx, config); err != nil {
			return err
		}
	}
	return w.onBoth(func(ctx context.Context, n *node.Node) error { return w.awaitNode(ctx, n, n.Config.Name) })(ctx)
}

// awaitNode waits until a node of a cluster is ready.
func (w *world) awaitNode(ctx context.Context, n *node.Node, name string) error {
	for _, condition := range []string{"create", "condition=Ready"} {
		if _, err := w.kubectl(ctx, n, "wait", "--for="+condition, "node/"+name, "--timeout=2m"); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) kubectl(ctx context.Context, n *node.Node, args ...string) (string, error) {
	return clusters.Output(files.Kubectl(ctx, n.Kubeconfig(), args...))
}

func (w *world) peer(ctx context.Context) error {
	rome, milan := w.nodes[clusters.Consumer], w.nodes[clusters.Provider]
	_, err := clusters.Output(exec.CommandContext(ctx, files.Longshorectl(), "peer",
		"--kubeconfig", rome.Kubeconfig(), "--remote-kubeconfig", milan.Kubeconfig()))
	if err != nil {
		return err
	}
	return w.awaitNode(ctx, rome, clusters.Provider)
}

func (w *world) apply(ctx context.Context, manifests string) error {
	apply := files.Kubectl(ctx, w.nodes[clusters.Consumer].Kubeconfig(), "apply", "-f", "-")
	apply.Stdin = strings.NewReader(manifests)
	_, err := clusters.Output(apply)
	return err
}

func (w *world) offload(ctx context.Context) error {
	if err := w.apply(ctx, shop); err != nil {
		return err
	}
	_, err := w.kubectl(ctx, w.nodes[clusters.Consumer], "-n", "shop", "wait", "--for=jsonpath={.status.offloadingPhase}=Ready",
		"namespaceoffloading/offloading", "--timeout=1m")
	return err
}

func (w *world) run(ctx context.Context) error {
	rome := w.nodes[clusters.Consumer]
	if err := w.apply(ctx, web); err != nil {
		return err
	}
	if _, err := w.kubectl(ctx, rome, "-n", "shop", "rollout", "status", "deployment/web", "--timeout=2m"); err != nil {
		return err
	}
	_, err := w.kubectl(ctx, rome, "wait", "--for=condition=Ready", "pod/client", "--timeout=1m")
	return err
}

// report shows what happened, and how to look further.
func (w *world) report(ctx context.Context) error {
	rome, milan := w.nodes[clusters.Consumer], w.nodes[clusters.Provider]
	for _, question := range []struct {
		title   string
		cluster *node.Node
		args    []string
	}{
		{"Nodes of rome; milan is virtual:", rome, []string{"get", "nodes", "-o", "wide"}},
		{"Pods of rome:", rome, []string{"-n", "shop", "get", "pods", "-o", "wide"}},
		{"The same pods in milan:", milan, []string{"-n", "shop-" + clusters.Consumer, "get", "pods", "-o", "wide"}},
		{"A pod of rome calls http://web.shop:", rome, []string{"exec", "client", "--", "/app", "get", "http://web.shop/"}},
	} {
		answer, err := w.kubectl(ctx, question.cluster, question.args...)
		if err != nil {
			return err
		}
		w.out.Heading("%s", question.title)
		w.out.Line("%s", strings.TrimRight(answer, "\n"))
	}
	w.out.Heading("Look further, as root:")
	for _, n := range []*node.Node{rome, milan} {
		if err := writeKubectl(n); err != nil {
			return err
		}
	}
	for _, line := range []string{
		path("bin/rome") + " -n shop exec deployment/web -- /app get http://localhost:8080/",
		path("bin/rome") + " -n shop top pod",
		path("bin/milan") + " get shadowpods,pods -n shop-rome -o wide",
		"ls " + path("rome/logs") + " " + path("rome/pods") + "        # logs of the node and of its containers",
		"make demo-down           # stop everything",
	} {
		w.out.Line("  %s", line)
	}
	return nil
}

// writeKubectl writes a command that runs kubectl in the network of the clusters.
func writeKubectl(n *node.Node) error {
	kubectl, err := filepath.Abs(path("kubectl"))
	if err != nil {
		return fmt.Errorf("resolving kubectl: %w", err)
	}
	// The number in this namespace is 1: the command asks for the one of the machine.
	pid, err := filepath.Abs(path("pid"))
	if err != nil {
		return fmt.Errorf("resolving the process ID: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --target \"$(cat %q)\" --net -- %q --kubeconfig %q \"$@\"\n", pid, kubectl, n.Kubeconfig())
	file := path(filepath.Join("bin", n.Config.Name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("creating %s: %w", filepath.Dir(file), err)
	}
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
