package identity

import (
	"context"
	"crypto"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Keys is the cluster's key pair, in a Secret of Longshore's own namespace. It
// proves who the cluster is to all its providers.
type Keys struct {
	Client client.Client
	// APIReader reads the Secret, which is not cached.
	APIReader client.Reader
	// Namespace is Longshore's own.
	Namespace string
}

// Start implements manager.Runnable: the key pair exists from the first start on, since
// longshorectl peer reads it.
func (k *Keys) Start(ctx context.Context) error {
	_, _, err := k.Get(ctx)
	return err
}

// Get returns the key pair and its PEM private key. It is created when there is none; one that
// exists and is not usable is an error, since a new one would not be that of the cluster's
// identities.
func (k *Keys) Get(ctx context.Context) (crypto.Signer, []byte, error) {
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: k.Namespace, Name: authentication.KeysSecretName}
	err := k.APIReader.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return k.create(ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cluster's key pair in Secret %s: %w", name, err)
	}
	key, err := authentication.ParseKey(secret.Data[authentication.PrivateKeyKey])
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cluster's key pair in Secret %s: %w", name, err)
	}
	return key, secret.Data[authentication.PrivateKeyKey], nil
}

func (k *Keys) create(ctx context.Context) (crypto.Signer, []byte, error) {
	key, err := authentication.NewKey()
	if err != nil {
		return nil, nil, err
	}
	private, public, err := authentication.EncodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: authentication.KeysSecretName, Namespace: k.Namespace},
		Data:       map[string][]byte{authentication.PrivateKeyKey: private, authentication.PublicKeyKey: public},
	}
	err = k.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return k.Get(ctx) // Another replica was faster.
	}
	if err != nil {
		return nil, nil, fmt.Errorf("creating Secret %s/%s with the cluster's key pair: %w", k.Namespace, secret.Name, err)
	}
	return key, private, nil
}
