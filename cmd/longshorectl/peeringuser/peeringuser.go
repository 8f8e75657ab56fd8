// Package peeringuser is longshorectl generate and delete peering-user: a kubeconfig with which an
// administrator of a consumer can peer, and do nothing else in the provider.
package peeringuser

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/handshake"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const (
	timeout = time.Minute

	nameLabel      = "liqo.io/peering-user-name"
	namePrefix     = "liqo-peer-user-"
	componentLabel = "app.kubernetes.io/component"
	component      = "peering-user"
	randomBytes    = 16
	contextName    = "default-context"
)

// userName is the name of the peering user of a consumer and of its CertificateSigningRequest.
func userName(consumer liqocorev1beta1.ClusterID) string { return namePrefix + string(consumer) }

// subject returns a subject for a new certificate. Its random part makes certificates of an
// earlier user of the same name useless.
func subject(consumer liqocorev1beta1.ClusterID) authentication.Subject {
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // It never fails: crypto/rand ends the process instead.
	return authentication.Subject{User: userName(consumer) + "-" + hex.EncodeToString(random), Group: authv1beta1.ControlPlaneGroup}
}

// bindings returns the RoleBindings of a user.
func bindings(consumer liqocorev1beta1.ClusterID, user, longshore, clusterRoleNamespace, role, clusterRole string) []client.Object {
	of := func(suffix, namespace, kind, role string) client.Object {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: userName(consumer) + suffix, Namespace: namespace, Labels: map[string]string{nameLabel: userName(consumer)}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
	}
	return []client.Object{
		of("-liqo-ns-reader", longshore, "Role", role), of("-tenant-ns-writer", clusterRoleNamespace, "ClusterRole", clusterRole),
	}
}

// request returns the CertificateSigningRequest of a user.
func request(consumer liqocorev1beta1.ClusterID, csr []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: userName(consumer), Labels: map[string]string{nameLabel: userName(consumer)}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: csr, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
}

// kubeconfig returns the kubeconfig of a user.
func kubeconfig(consumer liqocorev1beta1.ClusterID, namespace, server string, ca, certificate, key []byte) ([]byte, error) {
	config, user := clientcmdapi.NewConfig(), string(consumer)+"-user"
	config.Clusters["provider"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: "provider", AuthInfo: user, Namespace: namespace}
	config.CurrentContext = contextName
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return encoded, nil
}

// Generate is longshorectl generate peering-user.
func Generate(streams admin.Streams) *cobra.Command {
	f := admin.Flags{}
	var consumer string
	command := &cobra.Command{
		Use:   "peering-user",
		Short: "Print a kubeconfig with which a consumer's administrator can peer, and no more",
		Long: "Print a kubeconfig with which an administrator of a consumer can run longshorectl peer and unpeer, and do nothing else in this cluster, the\n" +
			"provider. The kubeconfig is not stored. Delete the user when the clusters are peered: until then its administrator can also change the\n" +
			"consumer's Tenant, and lift a cordon.\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong command line.",
		Example: "  longshorectl generate peering-user --consumer-cluster-id rome > peering.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := parse(consumer)
			if err != nil {
				return err
			}
			provider, err := f.Open()
			if err != nil {
				return err
			}
			var encoded []byte
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, []admin.Step{{
				Title: "Peering user of " + consumer, Run: func(ctx context.Context, waiting admin.Waiting) (err error) {
					encoded, err = generate(ctx, provider, id, waiting)
					return err
				},
			}}); err != nil {
				return err
			}
			if _, err := streams.Out.Write(encoded); err != nil {
				return fmt.Errorf("printing the result: %w", err)
			}
			return nil
		},
	}
	f.AddTo(command, "provider", timeout)
	command.Flags().StringVar(&consumer, "consumer-cluster-id", "", "cluster ID of the consumer")
	return command
}

func parse(consumer string) (liqocorev1beta1.ClusterID, error) {
	id := liqocorev1beta1.ClusterID(consumer)
	if err := id.Validate(); err != nil {
		return "", output.Usagef("invalid --consumer-cluster-id: %w", err)
	}
	return id, nil
}

// generate creates the user. One that exists is an error, before anything is written: its
// certificate would keep the rights.
func generate(ctx context.Context, provider *admin.Cluster, consumer liqocorev1beta1.ClusterID, waiting admin.Waiting) ([]byte, error) {
	existing, err := objects(ctx, provider, consumer)
	if err != nil {
		return nil, err
	}
	if len(existing) > 0 {
		return nil, fmt.Errorf("the peering user of cluster %q exists: run longshorectl delete peering-user --consumer-cluster-id %[1]s first", consumer)
	}
	role, clusterRole, err := roles(ctx, provider)
	if err != nil {
		return nil, err
	}
	namespace, err := handshake.Prepare(ctx, provider, consumer)
	if err != nil {
		return nil, err
	}
	key, err := authentication.NewKey()
	if err != nil {
		return nil, fmt.Errorf("making the user's key: %w", err)
	}
	private, _, err := authentication.EncodeKey(key)
	if err != nil {
		return nil, fmt.Errorf("making the user's key: %w", err)
	}
	user := subject(consumer)
	encoded, err := authentication.NewCSR(key, user)
	if err != nil {
		return nil, fmt.Errorf("making the user's certificate request: %w", err)
	}
	csr := request(consumer, encoded)
	for _, object := range append([]client.Object{csr}, bindings(consumer, user.User, provider.Namespace, namespace, role, clusterRole)...) {
		if err := provider.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %s: %w", admin.Describe(object), err)
		}
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "PeeringUser", Message: "An administrator ran longshorectl generate peering-user.",
	}}
	if err := provider.SubResource("approval").Update(ctx, csr); err != nil {
		return nil, fmt.Errorf("approving the user's certificate request: %w", err)
	}
	if err := provider.Until(ctx, csr, waiting, func() string {
		if len(csr.Status.Certificate) == 0 {
			return "kube-controller-manager to sign it"
		}
		return ""
	}); err != nil {
		return nil, err
	}
	return kubeconfig(consumer, namespace, provider.Host, provider.CA, csr.Status.Certificate, private)
}

// roles returns the names of the Role and the ClusterRole that the chart has for peering users.
func roles(ctx context.Context, provider *admin.Cluster) (role, clusterRole string, err error) {
	isForUsers := client.MatchingLabels{componentLabel: component}
	clusterRoles, namespaced := &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}
	if err := errors.Join(provider.List(ctx, clusterRoles, isForUsers), provider.List(ctx, namespaced, isForUsers, client.InNamespace(provider.Namespace))); err != nil {
		return "", "", fmt.Errorf("listing the roles of peering users: %w", err)
	}
	if len(clusterRoles.Items) != 1 || len(namespaced.Items) != 1 {
		return "", "", fmt.Errorf("%d ClusterRoles and %d Roles in namespace %s have the label %s=%s, want 1 and 1: upgrade Longshore's chart",
			len(clusterRoles.Items), len(namespaced.Items), provider.Namespace, componentLabel, component)
	}
	return namespaced.Items[0].Name, clusterRoles.Items[0].Name, nil
}

// objects returns the RoleBindings and the certificate request of a user.
func objects(ctx context.Context, provider *admin.Cluster, consumer liqocorev1beta1.ClusterID) ([]client.Object, error) {
	isUsers := client.MatchingLabels{nameLabel: userName(consumer)}
	found, requests := &rbacv1.RoleBindingList{}, &certificatesv1.CertificateSigningRequestList{}
	if err := errors.Join(provider.List(ctx, found, isUsers), provider.List(ctx, requests, isUsers)); err != nil {
		return nil, fmt.Errorf("listing the objects of the peering user: %w", err)
	}
	var all []client.Object
	for i := range found.Items {
		all = append(all, &found.Items[i])
	}
	for i := range requests.Items {
		all = append(all, &requests.Items[i])
	}
	return all, nil
}

// Delete is longshorectl delete peering-user.
func Delete(streams admin.Streams) *cobra.Command {
	f := admin.Flags{}
	var consumer string
	command := &cobra.Command{
		Use:     "peering-user",
		Short:   "Take the rights of a peering user away; a peering that it made stays",
		Long:    "Take the rights of a peering user away. Peerings that it made stay. A user that does not exist is not an error.\nExit codes: 0 done, 1 failed, 2 wrong command line.",
		Example: "  longshorectl delete peering-user --consumer-cluster-id rome",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := parse(consumer)
			if err != nil {
				return err
			}
			provider, err := f.Open()
			if err != nil {
				return err
			}
			outcome := "does not exist"
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, []admin.Step{{
				Title: "Peering user of " + consumer, Run: func(ctx context.Context, waiting admin.Waiting) error {
					all, err := objects(ctx, provider, id)
					if err != nil || len(all) == 0 {
						return err
					}
					outcome = "deleted"
					return provider.DeleteAll(ctx, all, waiting)
				},
			}}); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(streams.Out, "peering-user/%s %s\n", id, outcome); err != nil {
				return fmt.Errorf("printing the result: %w", err)
			}
			return nil
		},
	}
	f.AddTo(command, "provider", timeout)
	command.Flags().StringVar(&consumer, "consumer-cluster-id", "", "cluster ID of the consumer")
	return command
}
