package move

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
	"github.com/longshore-dev/longshore/host/kit/volumecopy"
)

func claim(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "uid-of-data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("liqo"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func user(claim string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := forgePod(claim, "shop", "", "image", "", false)
	p.Name, p.Labels = "db-0", nil
	for _, f := range change {
		f(p)
	}
	return p
}

func TestWhatCannotBeCopied(t *testing.T) {
	ours := func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{sourceAnnotation: "uid-of-data"}
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	}
	for name, tc := range map[string]struct {
		change func(*found)
		want   string
	}{
		"a volume to a virtual node": {func(*found) {}, ""},
		"an attempt is taken up":     {func(f *found) { f.target = claim("data-milan", ours) }, ""},
		"the data is not there":      {func(f *found) { f.source.Status.Phase = "" }, "claim data is Pending and has no data"},
		"the claim is being deleted": {func(f *found) { f.source.DeletionTimestamp = ptr.To(metav1.Now()) }, "claim data is being deleted"},
		"a block device":             {func(f *found) { f.source.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, "is a block device"},
		"a claim that only reads":    {func(f *found) { f.source.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany} }, "with which a copy cannot be written"},
		"a pod writes":               {func(f *found) { f.pods = []corev1.Pod{*user("data")} }, "is mounted by pod db-0, which could change it while it is copied: scale the workload to zero first"},
		"a pod reads":                {func(f *found) { f.pods = []corev1.Pod{*user("data", readOnly)} }, ""},
		"a pod has ended": {func(f *found) {
			f.pods = []corev1.Pod{*user("data", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}
		}, ""},
		"a pod of an earlier attempt":               {func(f *found) { f.pods = []corev1.Pod{*forgePod("data", "shop", "source", "i", "", true)} }, ""},
		"a class of this cluster only":              {func(f *found) { f.class.Provisioner = "ebs.csi.aws.com" }, "set --storage-class to one with the provisioner liqo.io/storage"},
		"a class of this cluster, for a node of it": {func(f *found) { f.class.Provisioner, f.node.Labels = "ebs.csi.aws.com", nil }, ""},
		"no class":                                  {func(f *found) { f.class = nil }, "set --storage-class"},
		"a namespace that is not offloaded":         {func(f *found) { f.namespace.Labels = nil }, "run longshorectl offload namespace shop"},
		"a copy where no pod of the namespace runs": {func(f *found) { f.node.Labels, f.strategy = nil, "Remote" }, "cannot run on node milan, since its strategy is Remote: run longshorectl offload namespace shop --pod-offloading-strategy LocalAndRemote"},
		"a source where no pod of the namespace runs": {func(f *found) {
			f.strategy, f.sourceNode = "Remote", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
		}, "cannot run on node rome"},
		"pods stay in this cluster":        {func(f *found) { f.strategy = "Local" }, "since its strategy is Local"},
		"from here to there":               {func(f *found) { f.strategy, f.sourceNode = "LocalAndRemote", &corev1.Node{} }, ""},
		"another claim of the copy's name": {func(f *found) { f.target = claim("data-milan") }, "claim data-milan exists and is not a copy of data"},
		"the copy is being deleted": {func(f *found) {
			f.target = claim("data-milan", ours)
			f.target.DeletionTimestamp = ptr.To(metav1.Now())
		}, "wait, and run the command again"},
		"the copy is in use": {func(f *found) { f.target = claim("data-milan", ours); f.pods = []corev1.Pod{*user("data-milan")} }, "claim data-milan is mounted by pod db-0"},
		"the copy is smaller than the volume": {func(f *found) {
			f.target = claim("data-milan", ours)
			f.target.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
		}, "claim data-milan has 1Gi, and claim data needs 2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &found{
				source: claim("data"), namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"liqo.io/scheduling-enabled": "true"}}},
				node:  &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{"liqo.io/type": "virtual-node"}}},
				class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: virtualProvisioner},
			}
			tc.change(f)
			got := f.problem(request{namespace: "shop", source: "data", target: "data-milan", node: "milan"})
			if tc.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, tc.want)
		})
	}
	assert.Contains(t, (&found{}).problem(request{source: "data", target: "data"}), "set --to to another name")
}

func readOnly(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true }

// rig has the volumes in folders; pods run as soon as they are created.
type rig struct {
	*mover
	t      *testing.T
	dirs   map[string]string
	broken func(command []string) error
	sent   int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dirs: map[string]string{"data": t.TempDir(), "data-milan": t.TempDir()}}
	require.NoError(t, os.WriteFile(filepath.Join(r.dirs["data"], "table"), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(r.dirs["data"], "wal"), []byte("w"), 0o600))
	c := fakeclient.Builder(
		claim("data"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"liqo.io/scheduling-enabled": "true"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{"liqo.io/type": "virtual-node"}}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: virtualProvisioner},
	).WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if pod, ok := object.(*corev1.Pod); ok {
			pod.Status.Phase = corev1.PodRunning
		}
		return c.Create(ctx, object, options...)
	}}).Build()
	r.mover = &mover{
		Cluster: &admin.Cluster{Client: c, Role: "cluster"}, image: "longshore:1",
		request: request{namespace: "shop", source: "data", target: "data-milan", node: "milan"}, exec: r.run,
	}
	return r
}

// run is what the pods do.
func (r *rig) run(_ context.Context, pod *corev1.Pod, command []string, in io.Reader, out io.Writer) error {
	if r.broken != nil {
		if err := r.broken(command); err != nil {
			return err
		}
	}
	volume := pod.Spec.Volumes[0].PersistentVolumeClaim
	dir := r.dirs[volume.ClaimName]
	switch command[2] {
	case "list":
		return volumecopy.List(dir, out)
	case "send":
		stream := &bytes.Buffer{}
		err := volumecopy.Send(dir, in, stream)
		r.sent = stream.Len()
		_, errWrite := stream.WriteTo(out)
		return errors.Join(err, errWrite)
	case "receive":
		return volumecopy.Receive(dir, in)
	default:
		summary, err := volumecopy.Sum(dir)
		return errors.Join(err, json.NewEncoder(out).Encode(summary))
	}
}

func (r *rig) try() error {
	for _, step := range r.steps() {
		if err := step.Run(r.t.Context(), func(string) {}); err != nil {
			return errors.Join(err, r.clean(r.t.Context()))
		}
	}
	return r.clean(r.t.Context())
}

func (r *rig) assertNoPods() {
	r.t.Helper()
	pods := &corev1.PodList{}
	require.NoError(r.t, r.List(r.t.Context(), pods))
	assert.Empty(r.t, pods.Items)
}

func TestAVolumeIsMoved(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.try())
	r.assertNoPods()
	copied, source := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data-milan"}, copied))
	assert.Equal(t, "2Gi", copied.Spec.Resources.Requests.Storage().String(), "the size of the volume")
	assert.Equal(t, r.digest, copied.Annotations[copiedAnnotation])
	require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, source), "the source stays")
	content, err := os.ReadFile(filepath.Join(r.dirs["data-milan"], "table"))
	require.NoError(t, err)
	assert.Len(t, content, 1<<20)

	require.NoError(t, r.try(), "the command can be repeated")
	assert.Less(t, r.sent, 1<<20, "what is there is not sent again")
	require.NoError(t, r.deleteSource(t.Context(), func(string) {}))
	assert.True(t, apierrors.IsNotFound(r.Get(t.Context(), client.ObjectKeyFromObject(source), source)))
}

// TestThePlaceOfAVolumeIsRead has a volume in this cluster, whose pods run elsewhere.
func TestThePlaceOfAVolumeIsRead(t *testing.T) {
	r := newRig(t)
	source := &corev1.PersistentVolumeClaim{}
	require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, source))
	source.Annotations = map[string]string{selectedNodeAnnotation: "rome"}
	require.NoError(t, r.Update(t.Context(), source))
	require.NoError(t, r.Create(t.Context(), &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "offloading"}, Spec: offloadingv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: "Remote"},
	}))
	require.NoError(t, r.read(t.Context()), "the node of the volume does not exist any more")
	require.NoError(t, r.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}))
	require.ErrorContains(t, r.try(), "cannot run on node rome")
	r.assertNoPods()
}

// TestTheSourceStaysUntilItsCopyIsEqual breaks each command of a copy.
func TestTheSourceStaysUntilItsCopyIsEqual(t *testing.T) {
	for _, verb := range []string{"list", "send", "receive", "sum"} {
		t.Run(verb, func(t *testing.T) {
			r := newRig(t)
			r.broken = func(command []string) error {
				if command[2] == verb {
					return errors.New("the connection was lost")
				}
				return nil
			}
			require.ErrorContains(t, r.try(), "the connection was lost")
			r.assertNoPods()
			require.ErrorContains(t, r.deleteSource(t.Context(), func(string) {}), "it stays")
			require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, &corev1.PersistentVolumeClaim{}))
			r.broken = nil
			require.NoError(t, r.try(), "the next attempt takes it up")
		})
	}
}

// TestAnUnequalCopyIsSentOnceMore has a file with other content, and the size and time of the
// source's.
func TestAnUnequalCopyIsSentOnceMore(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.try())
	info, err := os.Stat(filepath.Join(r.dirs["data"], "wal"))
	require.NoError(t, err)
	spoil := func() {
		file := filepath.Join(r.dirs["data-milan"], "wal")
		require.NoError(t, os.WriteFile(file, []byte("v"), 0o600))
		require.NoError(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	}
	spoil()
	r.digest = ""
	require.NoError(t, r.try())
	assert.Greater(t, r.sent, 1<<20, "everything was sent")

	r.digest = ""
	r.broken = func(command []string) error {
		if command[2] == "sum" {
			spoil() // Something writes to the copy all the time.
		}
		return nil
	}
	require.ErrorContains(t, r.try(), "the volumes differ after the copy")
	require.ErrorContains(t, r.deleteSource(t.Context(), func(string) {}), "it stays")
}

func TestAWriterThatComesLateKeepsTheSource(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.try())
	require.NoError(t, r.Create(t.Context(), user("data")))
	require.ErrorContains(t, r.deleteSource(t.Context(), func(string) {}), "claim data stays: claim data is mounted by pod db-0")
}

// The pods that copy are gone then, so that nothing holds the copy.
func TestTheSourceStaysWhenItsCopyIsDeleted(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.try())
	require.NoError(t, r.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data-milan"}}))
	require.ErrorContains(t, r.deleteSource(t.Context(), func(string) {}), "claim data stays: claim data-milan, its copy, was deleted meanwhile")
	require.NoError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "data"}, &corev1.PersistentVolumeClaim{}))
}

// The error of the receiver is that its stream was cut.
func TestAFailureOfTheSenderIsReported(t *testing.T) {
	r := newRig(t)
	r.broken = func(command []string) error {
		if command[2] == "send" {
			return errors.New("the file became shorter")
		}
		return nil
	}
	require.ErrorContains(t, r.try(), "reading claim data: the file became shorter")
}

func TestTheImageIsThatOfTheManager(t *testing.T) {
	r := newRig(t)
	r.image, r.Namespace = "", "longshore"
	require.ErrorContains(t, r.defaultImage(t.Context()), "set --image")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "longshore-manager"}}
	require.NoError(t, r.Create(t.Context(), deployment))
	for _, name := range managerContainers {
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:1"}, {Name: name, Image: "longshore:" + name}}
		require.NoError(t, r.Update(t.Context(), deployment))
		r.image = ""
		require.NoError(t, r.defaultImage(t.Context()))
		assert.Equal(t, "longshore:"+name, r.image)
	}
}

func TestWhatAPodWaitsFor(t *testing.T) {
	pod := &corev1.Pod{}
	assert.Equal(t, "it to run", startProblem(pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}
	assert.Equal(t, "0/1 nodes are available", startProblem(pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
	assert.Equal(t, "ErrImagePull: not found", startProblem(pod))
	pod.Status.Phase = corev1.PodRunning
	assert.Empty(t, startProblem(pod))
	assert.True(t, strings.HasPrefix(forgePod("data", "shop", "source", "i", "n", true).GenerateName, "longshore-copy-source-"))
}
