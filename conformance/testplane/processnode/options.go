package processnode

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// stopGrace bounds how long processes may take to end when the node stops.
const stopGrace = 10 * time.Second

// Program is a local executable and the arguments that come before all others.
type Program struct {
	Path string
	Args []string
}

// Options configures a Node.
type Options struct {
	// Name of the Node object.
	Name string
	// Config reaches the cluster as its administrator.
	Config *rest.Config
	// Images maps an image, as the container names it or without tag and digest, to what
	// it runs by default.
	Images map[string]Program
	// Commands maps a container's command[0] to a program.
	Commands map[string]Program
	// Dir holds the pods' folders, LogDir the containers' logs: NAMESPACE_POD_CONTAINER.log
	// and, of the run before, the same with .1 at its end. Logs stay when pods go.
	Dir, LogDir string
	// Address gives a loopback address to a pod, or to the node, and a function that
	// takes it back.
	Address func() (ip string, release func(), err error)
	// Labels and Taints of the Node.
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity of the Node.
	Capacity corev1.ResourceList
	// Clock is the time source; nil means the real one.
	Clock clock.WithTicker
}

func (o *Options) complete() error {
	if o.Name == "" || o.Config == nil || o.Dir == "" || o.LogDir == "" || o.Address == nil {
		return errors.New("options Name, Config, Dir, LogDir and Address are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	for _, dir := range []*string{&o.Dir, &o.LogDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("resolving %s: %w", *dir, err)
		}
		*dir = absolute
	}
	return nil
}

// program decides what a container runs: its command when it has one, its image's
// default otherwise. Container arguments follow.
func (o *Options) program(container *corev1.Container) (Program, error) {
	known, ok := o.Images[container.Image]
	if !ok {
		known, ok = o.Images[withoutTag(container.Image)]
	}
	args := container.Args
	if len(container.Command) > 0 {
		command, found := o.Commands[container.Command[0]]
		if !found {
			return Program{}, fmt.Errorf("command %q of image %q is unknown to the process node, which knows %s",
				container.Command[0], container.Image, names(o.Commands))
		}
		known, ok, args = command, true, slices.Concat(container.Command[1:], args)
	}
	if !ok {
		return Program{}, fmt.Errorf("image %q is unknown to the process node, which knows %s", container.Image, names(o.Images))
	}
	return Program{Path: known.Path, Args: slices.Concat(known.Args, args)}, nil
}

func names(programs map[string]Program) string {
	if len(programs) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(programs)), ", ")
}

func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}

// logFile is where a container's output goes.
func (o *Options) logFile(namespace, pod, container string) string {
	return filepath.Join(o.LogDir, fmt.Sprintf("%s_%s_%s.log", namespace, pod, container))
}
