// Package move is longshorectl move volume: it copies the files of a volume to one on another
// node, which may be another cluster. The bytes pass through the command, which reads from a pod
// on one volume and writes to a pod on the other, so the clusters need no route between them.
package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

const (
	timeout = 2 * time.Hour
	// managerName is the Deployment from which the image is taken.
	managerName = "longshore-manager"
)

// managerContainers are the names of its container: that of the chart, and of the chart before liqoctl
// found it.
var managerContainers = []string{"controller-manager", "manager"}

type flags struct {
	admin.Flags
	request
	class, image string
	deleteSource bool
	confirmation admin.Confirmation
}

// Volume is longshorectl move volume.
func Volume(streams admin.Streams) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:     "volume CLAIM",
		Aliases: []string{"pvc", "persistentvolumeclaim"},
		Short:   "Copy the files of a volume to another node or cluster",
		Long: "Copy the files of a PersistentVolumeClaim to a new claim, whose volume is on another node: a virtual node is another cluster. No pod may write\n" +
			"to the claim meanwhile. Both volumes are compared by checksum. The claim and its data stay, unless --delete-source is set and the comparison\n" +
			"succeeded. The command can be repeated after an interruption: it sends what the copy does not have.\n" +
			"Owners, modes, times, symbolic and hard links are copied, extended attributes are not.\n" +
			"Exit codes: 0 copied, 1 failed; the claim is unchanged, 2 wrong command line.",
		Example: "  longshorectl move volume data -n shop --target-node milan\n" +
			"  # A StatefulSet needs the name: move the volume, and its copy back to the name.\n" +
			"  longshorectl move volume data-db-0 -n shop --target-node milan --to moving --delete-source\n" +
			"  longshorectl move volume moving -n shop --target-node milan --to data-db-0 --delete-source",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.source = args[0]
			return f.run(cmd.Context(), streams)
		},
	}
	f.AddTo(cmd, "cluster", timeout)
	set := cmd.Flags()
	f.AddNamespaceTo(set)
	set.StringVar(&f.node, "target-node", "", "node of the copy; the name of a virtual node for another cluster")
	set.StringVar(&f.target, "to", "", "name of the claim of the copy; CLAIM-NODE when absent")
	set.StringVar(&f.class, "storage-class", "", "storage class of the copy; that of the claim when absent")
	set.StringVar(&f.image, "image", "", "image of Longshore that both clusters can pull; that of the manager when absent")
	set.BoolVar(&f.deleteSource, "delete-source", false, "delete the claim, and its data by its reclaim policy, when the copy is equal")
	f.confirmation.AddTo(set)
	return cmd
}

func (f *flags) run(ctx context.Context, streams admin.Streams) error {
	if f.node == "" {
		return output.Usagef("set --target-node; kubectl get nodes lists them, virtual nodes with the role agent")
	}
	if f.target == "" {
		f.target = f.source + "-" + f.node
	}
	config, namespace, err := f.Config()
	if err != nil {
		return err
	}
	f.namespace = namespace
	cluster, err := admin.Open(f.Role, config, f.LongshoreNamespace)
	if err != nil {
		return err
	}
	m := &mover{Cluster: cluster, request: f.request, class: f.class, image: f.image}
	if m.exec, err = execIn(config); err != nil {
		return err
	}
	if err := m.read(ctx); err != nil {
		return err
	}
	if err := m.defaultImage(ctx); err != nil {
		return err
	}
	steps := m.steps()
	if f.deleteSource {
		if err := f.confirmation.Ask(streams, fmt.Sprintf("This deletes claim %s/%s after its files are copied to claim %s.", f.namespace, f.source, f.target)); err != nil {
			return err
		}
		steps = append(steps, admin.Step{Title: "Deletion of claim " + f.source, Run: m.deleteSource})
	}
	err = admin.RunSteps(ctx, streams.Err, f.Timeout, steps)
	if err := errors.Join(err, m.clean(ctx)); err != nil {
		return err
	}
	return f.print(streams.Out)
}

func (r *request) print(w io.Writer) error {
	return output.Table(w, []string{"CLAIM", "COPY", "NODE"}, [][]string{{r.source, r.target, r.node}})
}

// defaultImage takes the image from the manager.
func (m *mover) defaultImage(ctx context.Context) error {
	if m.image != "" {
		return nil
	}
	deployment := &appsv1.Deployment{}
	if err := m.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: managerName}, deployment); err != nil {
		return fmt.Errorf("reading the image of Longshore (set --image): %w", err)
	}
	containers := deployment.Spec.Template.Spec.Containers
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return slices.Contains(managerContainers, c.Name) })
	if at < 0 {
		return fmt.Errorf("deployment %s/%s has no container %q: set --image", m.Namespace, managerName, managerContainers[0])
	}
	m.image = containers[at].Image
	return nil
}

// execIn returns an executor in the pods of a cluster.
func execIn(config *rest.Config) (executor, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return func(ctx context.Context, pod *corev1.Pod, command []string, in io.Reader, out io.Writer) error {
		request := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: containerName, Command: command, Stdin: in != nil, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec)
		spdy, err := remotecluster.Executor(config, request.URL())
		if err != nil {
			return fmt.Errorf("connecting to pod %s: %w", pod.Name, err)
		}
		errs := &tail{}
		if err := spdy.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errs}); err != nil {
			if said := strings.TrimSpace(errs.String()); said != "" {
				return fmt.Errorf("in pod %s: %s: %w", pod.Name, said, err)
			}
			return fmt.Errorf("in pod %s: %w", pod.Name, err)
		}
		return nil
	}, nil
}

// maxTail is how much of the errors of a command in a pod is kept.
const maxTail = 4 << 10

// tail keeps the end of what is written to it: a pod of another cluster may write without end.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-maxTail):]...)
	t.text = slices.Clone(t.text[max(0, len(t.text)-maxTail):])
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }
