package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Streams are where the commands print, results and progress, and where they read answers.
type Streams struct {
	Out io.Writer
	Err *os.File
	In  *os.File
}

// Flags are those of every command on one cluster.
type Flags struct {
	cluster.Flags
	// Timeout of the whole command.
	Timeout time.Duration
	// LongshoreNamespace is that of Longshore itself.
	LongshoreNamespace string
	// Role of the cluster in messages.
	Role string
}

// AddTo adds the flags. A command that only reads has no timeout: 0.
func (f *Flags) AddTo(command *cobra.Command, role string, timeout time.Duration) {
	f.Role = role
	set := command.Flags()
	f.AddAllTo(set)
	if timeout > 0 {
		set.DurationVar(&f.Timeout, "timeout", timeout, "how long to wait in all")
	}
	set.StringVar(&f.LongshoreNamespace, "longshore-namespace", "longshore", "namespace of Longshore in the cluster")
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "liqo-namespace" {
			name = "longshore-namespace"
		}
		return pflag.NormalizedName(name)
	})
}

// Open returns a client of the cluster. Its ID is not read.
func (f *Flags) Open() (*Cluster, error) {
	config, _, err := f.Config()
	if err != nil {
		return nil, err
	}
	return Open(f.Role, config, f.LongshoreNamespace)
}

// Connect returns a client of the cluster and reads its ID.
func (f *Flags) Connect(ctx context.Context) (*Cluster, error) {
	c, err := f.Open()
	if err != nil {
		return nil, err
	}
	return c, c.ReadID(ctx)
}

// PeerFlag is --remote-cluster-id.
type PeerFlag struct{ value string }

// AddTo adds the flag.
func (p *PeerFlag) AddTo(set *pflag.FlagSet, usage string) {
	set.StringVar(&p.value, "remote-cluster-id", "", usage)
}

// Required returns the value, or a usage error when the flag is not set.
func (p *PeerFlag) Required() (liqocorev1beta1.ClusterID, error) {
	if p.value == "" {
		return "", output.Usagef("set --remote-cluster-id; longshorectl status lists the peers of a cluster")
	}
	return p.Optional()
}

// Optional returns the value, which may be empty.
func (p *PeerFlag) Optional() (liqocorev1beta1.ClusterID, error) {
	id := liqocorev1beta1.ClusterID(p.value)
	if p.value == "" {
		return "", nil
	}
	if err := id.Validate(); err != nil {
		return "", output.Usagef("invalid --remote-cluster-id: %w", err)
	}
	return id, nil
}

// ResourceFlags are quantities of resources.
type ResourceFlags struct {
	cpu, memory, pods string
	others            map[string]string
}

// AddTo adds the flags. What follows the quantity in their usage is given; it says what an
// absent flag means.
func (r *ResourceFlags) AddTo(set *pflag.FlagSet, verb, absent string) {
	set.StringVar(&r.cpu, "cpu", "", "CPUs to "+verb+", such as 4; "+absent)
	set.StringVar(&r.memory, "memory", "", "memory to "+verb+", such as 8Gi; "+absent)
	set.StringVar(&r.pods, "pods", "", "number of pods to "+verb+"; "+absent)
	set.StringToStringVar(&r.others, "resource", nil, "another resource to "+verb+", NAME=QUANTITY; may be repeated")
}

// Parse returns the resources that are set. Errors are usage errors.
func (r *ResourceFlags) Parse() (corev1.ResourceList, error) {
	values := map[string]string{"cpu": r.cpu, "memory": r.memory, "pods": r.pods}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.others)) {
		if values[name] != "" {
			errs = append(errs, fmt.Errorf("--resource %s and --%[1]s exclude each other", name))
		}
		if r.others[name] == "" {
			errs = append(errs, fmt.Errorf("--resource %s has no quantity", name))
		}
		values[name] = r.others[name]
	}
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(values[name])
		if err != nil || quantity.Sign() < 0 {
			errs = append(errs, fmt.Errorf("invalid quantity %q of resource %s", values[name], name))
			continue
		}
		list[corev1.ResourceName(name)] = quantity
	}
	if err := errors.Join(errs...); err != nil {
		return nil, output.Usage(err)
	}
	return list, nil
}
