package move

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/volumecopy"
)

const (
	containerName = "copy"
	binary        = "/usr/bin/longshore"
	// report is the pause between two reports of the progress, cleanup the time to delete pods.
	report  = time.Second
	cleanup = 30 * time.Second
)

// executor runs a command in the container of a pod.
type executor func(ctx context.Context, pod *corev1.Pod, command []string, in io.Reader, out io.Writer) error

// mover copies one volume.
type mover struct {
	*admin.Cluster
	request
	class, image string
	exec         executor

	found    *found
	from, to *corev1.Pod
	digest   string
}

func (m *mover) steps() []admin.Step {
	return []admin.Step{
		{Title: "Claims of both volumes", Run: func(ctx context.Context, _ admin.Waiting) error { return m.claims(ctx) }},
		{Title: "Pods with both volumes", Run: m.pods},
		{Title: "Copy of the files", Run: m.copy},
		{Title: "Comparison of both volumes", Run: m.compare},
	}
}

// read reads what a copy needs, and reports why it cannot be made.
func (m *mover) read(ctx context.Context) error {
	m.found = &found{
		source: &corev1.PersistentVolumeClaim{}, target: &corev1.PersistentVolumeClaim{}, namespace: &corev1.Namespace{},
		node: &corev1.Node{}, class: &storagev1.StorageClass{},
	}
	f := m.found
	for _, object := range []struct {
		into      client.Object
		name      client.ObjectKey
		described string
	}{
		{f.namespace, client.ObjectKey{Name: m.namespace}, "namespace " + m.namespace},
		{f.source, client.ObjectKey{Namespace: m.namespace, Name: m.source}, "claim " + m.namespace + "/" + m.source},
		{f.node, client.ObjectKey{Name: m.node}, "node " + m.node},
	} {
		err := m.Get(ctx, object.name, object.into)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%s does not exist at %s", object.described, m.Host)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", object.described, err)
		}
	}
	if err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: m.target}, f.target); apierrors.IsNotFound(err) {
		f.target = nil
	} else if err != nil {
		return fmt.Errorf("reading claim %s: %w", m.target, err)
	}
	if m.class == "" && f.source.Spec.StorageClassName != nil {
		m.class = *f.source.Spec.StorageClassName
	}
	if m.class == "" {
		f.class = nil
	} else if err := m.Get(ctx, client.ObjectKey{Name: m.class}, f.class); err != nil {
		return fmt.Errorf("reading storage class %s: %w", m.class, err)
	}
	if err := m.readPlacement(ctx); err != nil {
		return err
	}
	list := &corev1.PodList{}
	if err := m.List(ctx, list, client.InNamespace(m.namespace)); err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", m.namespace, err)
	}
	f.pods = list.Items
	if problem := f.problem(m.request); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// readPlacement reads where pods of the namespace may run, and where the volume is.
func (m *mover) readPlacement(ctx context.Context) error {
	offloading := &offloadingv1beta1.NamespaceOffloading{}
	err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: offloadingv1beta1.NamespaceOffloadingName}, offloading)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the NamespaceOffloading of namespace %s: %w", m.namespace, err)
	}
	m.found.strategy = offloading.Spec.PodOffloadingStrategy
	name := m.found.source.Annotations[selectedNodeAnnotation]
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	err = m.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil // The volume may be on another one meanwhile.
	}
	if err != nil {
		return fmt.Errorf("reading node %s of claim %s: %w", name, m.source, err)
	}
	m.found.sourceNode = node
	return nil
}

// claims makes the claim of the copy, unless an earlier attempt did.
func (m *mover) claims(ctx context.Context) error {
	if err := m.read(ctx); err != nil {
		return err
	}
	if m.found.target != nil {
		return nil
	}
	m.found.target = forgeTarget(m.found.source, m.target, m.class)
	if err := m.Create(ctx, m.found.target); err != nil {
		return fmt.Errorf("creating claim %s: %w", m.target, err)
	}
	return nil
}

// pods starts a pod on each volume. Those of an earlier attempt are replaced: two could write.
func (m *mover) pods(ctx context.Context, waiting admin.Waiting) error {
	if err := m.removePods(ctx, waiting); err != nil {
		return err
	}
	m.from = forgePod(m.source, m.namespace, "source", m.image, "", true)
	m.to = forgePod(m.target, m.namespace, "target", m.image, m.node, false)
	for _, pod := range []*corev1.Pod{m.from, m.to} {
		if err := m.Create(ctx, pod); err != nil {
			return fmt.Errorf("creating a pod to copy the volume: %w", err)
		}
	}
	for _, pod := range []*corev1.Pod{m.from, m.to} {
		if err := m.Until(ctx, pod, waiting, func() string { return startProblem(pod) }); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s ended: %s; is %s an image of Longshore", pod.Name, pod.Status.Message, m.image)
		}
	}
	return nil
}

// startProblem returns what a pod waits for, or "" when it runs or has ended.
func startProblem(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return ""
	}
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil && waiting.Message != "" {
			return waiting.Reason + ": " + waiting.Message
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return condition.Message
		}
	}
	return "it to run"
}

// removePods deletes the pods of this copy, and waits until they are gone.
func (m *mover) removePods(ctx context.Context, waiting admin.Waiting) error {
	list := &corev1.PodList{}
	if err := m.List(ctx, list, client.InNamespace(m.namespace), client.HasLabels{podLabel}); err != nil {
		return fmt.Errorf("listing the pods of copies: %w", err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if !mounts(pod, m.source) && !mounts(pod, m.target) {
			continue
		}
		if err := m.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
		if err := m.UntilGone(ctx, pod, waiting); err != nil {
			return err
		}
	}
	return nil
}

func mounts(pod *corev1.Pod, claim string) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// clean deletes the pods although the command was interrupted.
func (m *mover) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	return m.removePods(ctx, func(string) {})
}

func command(verb string) []string { return []string{binary, "copy-volume", verb, "--dir", mountPath} }

// copy sends the files that the target does not have.
func (m *mover) copy(ctx context.Context, waiting admin.Waiting) error {
	have := &bytes.Buffer{}
	if err := m.exec(ctx, m.to, command("list"), nil, have); err != nil {
		return fmt.Errorf("listing the files of claim %s: %w", m.target, err)
	}
	return m.send(ctx, waiting, have)
}

// send connects the sender in one pod with the receiver in the other.
func (m *mover) send(ctx context.Context, waiting admin.Waiting, have io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	sent := &counter{Writer: writer}
	received := make(chan error, 1)
	go func() {
		err := m.exec(ctx, m.to, command("receive"), reader, io.Discard)
		_ = reader.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // The sender ends, too.
		received <- err
	}()
	stop := sent.report(ctx, waiting)
	err := m.exec(ctx, m.from, command("send"), have, sent)
	stop()
	_ = writer.CloseWithError(err) // Without an error, this is the end of the stream.
	// Each end fails when the other one has failed.
	if err != nil {
		err = fmt.Errorf("reading claim %s: %w", m.source, err)
	}
	if errReceived := <-received; errReceived != nil {
		err = errors.Join(err, fmt.Errorf("writing to claim %s: %w", m.target, errReceived))
	}
	return err
}

// compare compares both volumes, byte by byte. If they differ after an earlier attempt was taken
// up, everything is sent once more.
func (m *mover) compare(ctx context.Context, waiting admin.Waiting) error {
	for again := false; ; again = true {
		source, err := m.sum(ctx, m.from, m.source, waiting)
		if err != nil {
			return err
		}
		target, err := m.sum(ctx, m.to, m.target, waiting)
		if err != nil {
			return err
		}
		if *source == *target {
			m.digest = source.Digest
			return m.markCopied(ctx)
		}
		if again {
			return fmt.Errorf("the volumes differ after the copy (%d files with %d bytes, and %d with %d): something writes to one of them; claim %s is unchanged",
				source.Files, source.Bytes, target.Files, target.Bytes, m.source)
		}
		if err := m.send(ctx, waiting, strings.NewReader("")); err != nil {
			return err
		}
	}
}

func (m *mover) sum(ctx context.Context, pod *corev1.Pod, claim string, waiting admin.Waiting) (*volumecopy.Summary, error) {
	waiting("reading all of claim " + claim)
	out, summary := &bytes.Buffer{}, &volumecopy.Summary{}
	if err := m.exec(ctx, pod, command("sum"), nil, out); err != nil {
		return nil, fmt.Errorf("reading claim %s: %w", claim, err)
	}
	if err := json.Unmarshal(out.Bytes(), summary); err != nil || summary.Digest == "" {
		return nil, fmt.Errorf("reading the checksum of claim %s: the pod answered %q", claim, out.String())
	}
	return summary, nil
}

// markCopied records the digest on the copy.
func (m *mover) markCopied(ctx context.Context) error {
	target := m.found.target
	before := target.DeepCopy()
	metav1.SetMetaDataAnnotation(&target.ObjectMeta, copiedAnnotation, m.digest)
	if err := m.Patch(ctx, target, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("marking claim %s as copied: %w", m.target, err)
	}
	return nil
}

// deleteSource deletes the source, if nothing uses it and the copy that was compared still exists.
func (m *mover) deleteSource(ctx context.Context, waiting admin.Waiting) error {
	if m.digest == "" {
		return fmt.Errorf("claim %s was not compared with its copy; it stays", m.source)
	}
	if err := m.clean(ctx); err != nil {
		return err
	}
	before := m.found
	if err := m.read(ctx); err != nil {
		return fmt.Errorf("claim %s stays: %w", m.source, err)
	}
	if m.found.target == nil || m.found.target.UID != before.target.UID {
		return fmt.Errorf("claim %s stays: claim %s, its copy, was deleted meanwhile", m.source, m.target)
	}
	err := m.Delete(ctx, m.found.source, client.Preconditions{UID: &before.source.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting claim %s: %w", m.source, err)
	}
	return m.UntilGone(ctx, m.found.source, waiting)
}

// counter counts what passes.
type counter struct {
	io.Writer
	bytes atomic.Int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes.Add(int64(n))
	return n, err //nolint:wrapcheck // The pipe's.
}

// report reports the progress until the returned function is called.
func (c *counter) report(ctx context.Context, waiting admin.Waiting) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(report)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				waiting(resource.NewQuantity(c.bytes.Load()>>20<<20, resource.BinarySI).String() + " sent")
			}
		}
	}()
	return func() { cancel(); <-done }
}
