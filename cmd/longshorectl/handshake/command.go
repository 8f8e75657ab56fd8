package handshake

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const timeout = 2 * time.Minute

// manual describes the whole path in each command's help.
const manual = "This is a part of peering by hand, when no administrator reaches both clusters (rome is the consumer, milan the provider):\n" +
	"  1. milan: longshorectl create nonce --remote-cluster-id rome\n" +
	"  2. rome:  longshorectl generate tenant --remote-cluster-id milan --nonce NONCE > tenant.yaml\n" +
	"  3. milan: kubectl apply -f tenant.yaml\n" +
	"  4. milan: longshorectl generate identity --remote-cluster-id rome > identity.yaml\n" +
	"  5. rome:  kubectl apply -f identity.yaml\n" +
	"The nonce and the identity need not be kept secret: without the private key, which stays in rome, they give no rights.\n"

// CreateNonce is longshorectl create nonce.
func CreateNonce(streams admin.Streams) *cobra.Command {
	f, peer, format := admin.Flags{}, admin.PeerFlag{}, output.Text
	command := &cobra.Command{
		Use:     "nonce",
		Short:   "Make a nonce for a consumer, and print it; run it in the provider",
		Long:    manual + "-o yaml or json prints the Secret of the nonce and creates nothing.\nExit codes: 0 done, 1 failed, 2 wrong command line.",
		Example: "  longshorectl create nonce --remote-cluster-id rome",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			consumer, err := peer.Required()
			if err != nil {
				return err
			}
			provider, err := f.Open()
			if err != nil {
				return err
			}
			if format != output.Text {
				return output.Print(streams.Out, format, authentication.NonceSecret(authentication.TenantNamespace(consumer).Name, consumer), nil)
			}
			var nonce []byte
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, []admin.Step{
				{Title: "Nonce for " + string(consumer), Run: func(ctx context.Context, waiting admin.Waiting) error {
					if err := provider.CheckSigner(); err != nil {
						return err
					}
					namespace, err := Prepare(ctx, provider, consumer)
					if err != nil {
						return err
					}
					nonce, err = MakeNonce(ctx, provider, namespace, consumer, waiting)
					return err
				}},
			}); err != nil {
				return err
			}
			return printLine(streams.Out, nonce)
		},
	}
	f.AddTo(command, "provider", timeout)
	peer.AddTo(command.Flags(), "cluster ID of the consumer")
	format.AddEncodedTo(command.Flags(), "the nonce is made when absent")
	return command
}

// GetNonce is longshorectl get nonce.
func GetNonce(streams admin.Streams) *cobra.Command {
	f, peer := admin.Flags{}, admin.PeerFlag{}
	command := &cobra.Command{
		Use:     "nonce",
		Short:   "Print the nonce that was made for a consumer; run it in the provider",
		Example: "  longshorectl get nonce --remote-cluster-id rome",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			consumer, err := peer.Required()
			if err != nil {
				return err
			}
			provider, err := f.Open()
			if err != nil {
				return err
			}
			namespace, err := provider.RequireTenantNamespace(cmd.Context(), consumer)
			if err != nil {
				return err
			}
			secret := &corev1.Secret{}
			err = provider.Get(cmd.Context(), client.ObjectKey{Namespace: namespace, Name: authentication.NonceSecretName}, secret)
			switch nonce := secret.Data[authentication.NonceKey]; {
			case apierrors.IsNotFound(err) || err == nil && len(nonce) == 0:
				return fmt.Errorf("no nonce was made for cluster %q: run longshorectl create nonce --remote-cluster-id %[1]s", consumer)
			case err != nil:
				return fmt.Errorf("reading the nonce for cluster %q: %w", consumer, err)
			default:
				return printLine(streams.Out, nonce)
			}
		},
	}
	f.AddTo(command, "provider", 0)
	peer.AddTo(command.Flags(), "cluster ID of the consumer")
	return command
}

// GetKubeconfig is longshorectl get kubeconfig.
func GetKubeconfig(streams admin.Streams) *cobra.Command {
	f, peer := admin.Flags{}, admin.PeerFlag{}
	command := &cobra.Command{
		Use:     "kubeconfig IDENTITY",
		Aliases: []string{"kc"},
		Short:   "Print the kubeconfig of an Identity: this cluster's access to a provider",
		Long:    "Print the kubeconfig of an Identity. It has the private key of this cluster: a user who has it acts as this cluster in its providers.",
		Example: "  longshorectl get kubeconfig controlplane-milan --remote-cluster-id milan",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			provider, err := peer.Required()
			if err != nil {
				return err
			}
			consumer, err := f.Open()
			if err != nil {
				return err
			}
			kubeconfig, err := readKubeconfig(cmd.Context(), consumer, provider, args[0])
			if err != nil {
				return err
			}
			if _, err := streams.Out.Write(kubeconfig); err != nil {
				return fmt.Errorf("printing the result: %w", err)
			}
			return nil
		},
	}
	f.AddTo(command, "consumer", 0)
	peer.AddTo(command.Flags(), "cluster ID of the provider")
	return command
}

func readKubeconfig(ctx context.Context, consumer *admin.Cluster, provider liqocorev1beta1.ClusterID, name string) ([]byte, error) {
	namespace, err := consumer.RequireTenantNamespace(ctx, provider)
	if err != nil {
		return nil, err
	}
	identity, secret := &authv1beta1.Identity{}, &corev1.Secret{}
	if err := consumer.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, identity); err != nil {
		return nil, fmt.Errorf("reading Identity %s/%s: %w", namespace, name, err)
	}
	if identity.Status.KubeconfigSecretRef == nil {
		return nil, fmt.Errorf("Identity %s/%s has no kubeconfig yet", namespace, name) //nolint:staticcheck // A kind.
	}
	if err := consumer.Get(ctx, client.ObjectKey{Namespace: namespace, Name: identity.Status.KubeconfigSecretRef.Name}, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, identity.Status.KubeconfigSecretRef.Name, err)
	}
	return secret.Data[authv1beta1.KubeconfigSecretKey], nil
}

// GenerateTenant is longshorectl generate tenant.
func GenerateTenant(streams admin.Streams) *cobra.Command {
	f, peer, format := admin.Flags{}, admin.PeerFlag{}, output.YAML
	var nonce, remoteNamespace, proxyURL string
	command := &cobra.Command{
		Use:     "tenant",
		Short:   "Print the Tenant by which this cluster introduces itself; run it in the consumer",
		Long:    manual + "Exit codes: 0 done, 1 failed, 2 wrong command line.",
		Example: "  longshorectl generate tenant --remote-cluster-id milan --nonce NONCE > tenant.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			provider, err := peer.Required()
			if err != nil {
				return err
			}
			if nonce = strings.TrimSpace(nonce); nonce == "" {
				return output.Usagef("set --nonce: longshorectl create nonce prints it in the provider")
			}
			consumer, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			if consumer.ID == provider {
				return output.Usagef("--remote-cluster-id %s is this cluster: set that of the provider", provider)
			}
			if remoteNamespace == "" {
				remoteNamespace = authentication.TenantNamespace(consumer.ID).Name
			}
			var tenant *authv1beta1.Tenant
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, []admin.Step{
				{Title: "Signature for " + string(provider), Run: func(ctx context.Context, waiting admin.Waiting) error {
					namespace, err := Prepare(ctx, consumer, provider)
					if err != nil {
						return err
					}
					if err := SignNonce(ctx, consumer, namespace, provider, []byte(nonce), waiting); err != nil {
						return err
					}
					tenant, err = NewTenant(ctx, consumer, namespace, remoteNamespace, proxyURL)
					return err
				}},
			}); err != nil {
				return err
			}
			return output.Print(streams.Out, format, tenant, nil)
		},
	}
	f.AddTo(command, "consumer", timeout)
	set := command.Flags()
	peer.AddTo(set, "cluster ID of the provider")
	set.StringVar(&nonce, "nonce", "", "nonce that the provider made for this cluster")
	set.StringVar(&remoteNamespace, "remote-tenant-namespace", "", "tenant namespace in the provider; its default name when absent")
	set.StringVar(&proxyURL, "proxy-url", "", "HTTP CONNECT proxy through which the consumer reaches the provider's API server")
	format.AddEncodedTo(set, "yaml when absent")
	return command
}

// GenerateIdentity is longshorectl generate identity.
func GenerateIdentity(streams admin.Streams) *cobra.Command {
	f, peer, format := admin.Flags{}, admin.PeerFlag{}, output.YAML
	var remoteNamespace string
	command := &cobra.Command{
		Use:     "identity",
		Short:   "Print the Identity with the credentials of a consumer; run it in the provider",
		Long:    manual + "Exit codes: 0 done, 1 failed, 2 wrong command line.",
		Example: "  longshorectl generate identity --remote-cluster-id rome > identity.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			consumer, err := peer.Required()
			if err != nil {
				return err
			}
			provider, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			if remoteNamespace == "" {
				remoteNamespace = authentication.TenantNamespace(provider.ID).Name
			}
			var identity *authv1beta1.Identity
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, []admin.Step{
				{Title: "Credentials for " + string(consumer), Run: func(ctx context.Context, waiting admin.Waiting) error {
					namespace, err := provider.RequireTenantNamespace(ctx, consumer)
					if err != nil {
						return err
					}
					tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: string(consumer), Namespace: namespace}}
					if err := WaitAccepted(ctx, provider, tenant, waiting); err != nil {
						return err
					}
					identity, err = authentication.ControlPlaneIdentity(remoteNamespace, provider.ID, tenant)
					return err
				}},
			}); err != nil {
				return err
			}
			return output.Print(streams.Out, format, identity, nil)
		},
	}
	f.AddTo(command, "provider", timeout)
	set := command.Flags()
	peer.AddTo(set, "cluster ID of the consumer")
	set.StringVar(&remoteNamespace, "remote-tenant-namespace", "", "tenant namespace in the consumer; its default name when absent")
	format.AddEncodedTo(set, "yaml when absent")
	return command
}

func printLine(w io.Writer, text []byte) error {
	if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
		return fmt.Errorf("printing the nonce: %w", err)
	}
	return nil
}
