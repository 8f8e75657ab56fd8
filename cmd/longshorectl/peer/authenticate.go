package peer

import (
	"context"
	"fmt"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/handshake"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Pair is a consumer and its provider.
type Pair struct {
	Consumer, Provider *admin.Cluster
	// ProxyURL through which the consumer reaches the provider; empty means directly.
	ProxyURL string

	// The tenant namespaces: that of the provider in the consumer, and the reverse.
	inConsumer, inProvider string
	// granted is what the provider answered to a ResourceSlice; nil before that.
	granted *resourceslice.Granted
}

// AuthenticateSteps give the consumer its credentials for the provider.
func (p *Pair) AuthenticateSteps() []admin.Step {
	var nonce []byte
	return []admin.Step{
		{Title: "Tenant namespaces in both clusters", Run: func(ctx context.Context, _ admin.Waiting) (err error) {
			if err := p.Provider.CheckSigner(); err != nil {
				return err
			}
			if p.inConsumer, err = handshake.Prepare(ctx, p.Consumer, p.Provider.ID); err != nil {
				return err
			}
			p.inProvider, err = handshake.Prepare(ctx, p.Provider, p.Consumer.ID)
			return err
		}},
		{Title: "Nonce of the provider", Run: func(ctx context.Context, waiting admin.Waiting) (err error) {
			nonce, err = handshake.MakeNonce(ctx, p.Provider, p.inProvider, p.Consumer.ID, waiting)
			return err
		}},
		{Title: "Signature of the consumer", Run: func(ctx context.Context, waiting admin.Waiting) error {
			return handshake.SignNonce(ctx, p.Consumer, p.inConsumer, p.Provider.ID, nonce, waiting)
		}},
		{Title: "Credentials for the consumer", Run: p.credentials},
	}
}

// credentials sends the Tenant to the provider, and brings the Identity back.
func (p *Pair) credentials(ctx context.Context, waiting admin.Waiting) error {
	want, err := handshake.NewTenant(ctx, p.Consumer, p.inConsumer, p.inProvider, p.ProxyURL)
	if err != nil {
		return err
	}
	tenant, err := handshake.SendTenant(ctx, p.Provider, want)
	if err != nil {
		return err
	}
	if err := handshake.WaitAccepted(ctx, p.Provider, tenant, waiting); err != nil {
		return err
	}
	identity, err := authentication.ControlPlaneIdentity(p.inConsumer, p.Provider.ID, tenant)
	if err != nil {
		return fmt.Errorf("reading the credentials of the provider: %w", err)
	}
	return handshake.KeepIdentity(ctx, p.Consumer, identity, waiting)
}
