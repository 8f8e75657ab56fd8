package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// Sockets of etcd, relative to the state directory, which is the working directory: a
// socket path may have 107 bytes, and a test's temporary folder can be longer. Sockets
// need no free port, and a directory with mode 0700 keeps other users out, which etcd
// on loopback would not.
const (
	etcdClientURL = "unix://etcd-client.sock"
	etcdPeerURL   = "unix://etcd-peer.sock"
)

// startEtcd runs a single etcd member and returns when it serves.
func startEtcd(ctx context.Context, dir string) (*embed.Etcd, error) {
	client, err := url.Parse(etcdClientURL)
	if err != nil {
		return nil, fmt.Errorf("parsing the client URL: %w", err)
	}
	peer, err := url.Parse(etcdPeerURL)
	if err != nil {
		return nil, fmt.Errorf("parsing the peer URL: %w", err)
	}
	config := embed.NewConfig()
	config.Name = "testplane"
	config.Dir = filepath.Join(dir, "etcd")
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.Name + "=" + peer.String()
	config.LogLevel = "warn"
	// State survives the death of the process, not of the machine.
	config.UnsafeNoFsync = true
	// The only member need not wait long for others before it elects itself.
	config.TickMs, config.ElectionMs = 10, 100

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-ctx.Done():
		etcd.Close()
		return nil, fmt.Errorf("waiting for etcd: %w", ctx.Err())
	}
}
