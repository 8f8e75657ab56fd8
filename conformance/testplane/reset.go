package testplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

const (
	// resetPause is how long a cluster must stay as it was recorded. Controllers that have not seen a
	// deletion may create an object again.
	resetPause   = 150 * time.Millisecond
	resetTimeout = 30 * time.Second
	// operations is how many keys are changed at once: etcd's default limit.
	operations = 128
)

// unrecorded are the keys that components of the control plane write at any time.
var unrecorded = []string{"/registry/leases/kube-system/", "/registry/masterleases/", "/registry/apiregistration.k8s.io/apiservices/"}

// entry is a key of etcd, as its JSON interface has it. Bytes are base64.
type entry struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value,omitempty"`
	ModRevision string `json:"mod_revision,omitempty"`
}

// Record stores which objects the cluster has, for Reset.
func (c *Cluster) Record(ctx context.Context) error {
	entries, err := c.entries(ctx, false)
	if err != nil {
		return fmt.Errorf("recording cluster %q: %w", c.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorded = entries
	return nil
}

// Reset ends kwok, and gives the cluster the objects that it had when it was recorded. It writes to etcd
// directly: no finalizer and no grace period delays it, and the control plane sees objects that are deleted
// and changed. When it fails, the cluster is of no use.
func (c *Cluster) Reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resetTimeout)
	defer cancel()
	if err := c.reset(ctx); err != nil {
		return fmt.Errorf("resetting cluster %q: %w", c.Name, err)
	}
	return nil
}

func (c *Cluster) reset(ctx context.Context) error {
	c.mu.Lock()
	recorded := c.recorded
	var errs []error
	for _, p := range c.others {
		errs = append(errs, p.kill())
	}
	c.others = nil
	c.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if recorded == nil {
		return errors.New("it was not recorded")
	}
	for first := true; ; first = false {
		current, err := c.entries(ctx, true)
		if err != nil {
			return err
		}
		changes := difference(recorded, current, first)
		if len(changes) == 0 && !first {
			return nil
		}
		if err := c.write(ctx, changes); err != nil {
			return err
		}
		select {
		case <-time.After(resetPause):
		case <-ctx.Done():
			return fmt.Errorf("%d keys still differ, %s among them: %w", len(changes), changes[0].key(), ctx.Err())
		}
	}
}

// operation is a change of a key.
type operation struct {
	Put    *entry `json:"requestPut,omitempty"`
	Delete *entry `json:"requestDeleteRange,omitempty"`
}

func (o *operation) key() string {
	if o.Put != nil {
		return string(o.Put.Key)
	}
	return string(o.Delete.Key)
}

// difference returns the changes after which etcd has the recorded keys. Those that have changed are written
// if values is set: a controller may write some of them again, which is no reason to wait.
func difference(recorded, current map[string]entry, values bool) []operation {
	var changes []operation
	for key := range current {
		if _, ok := recorded[key]; !ok {
			changes = append(changes, operation{Delete: &entry{Key: []byte(key)}})
		}
	}
	for key, old := range recorded {
		now, ok := current[key]
		if !ok || values && now.ModRevision != old.ModRevision {
			changes = append(changes, operation{Put: &entry{Key: old.Key, Value: old.Value}})
		}
	}
	return changes
}

func (c *Cluster) write(ctx context.Context, changes []operation) error {
	for len(changes) > 0 {
		next := changes[:min(len(changes), operations)]
		changes = changes[len(next):]
		if err := c.etcd(ctx, "txn", map[string]any{"success": next}, &struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// entries reads what etcd has, by key.
func (c *Cluster) entries(ctx context.Context, keysOnly bool) (map[string]entry, error) {
	var answer struct {
		Entries []entry `json:"kvs"`
	}
	const first, end = "/registry/", "/registry0"
	request := map[string]any{"key": []byte(first), "range_end": []byte(end), "keys_only": keysOnly}
	if err := c.etcd(ctx, "range", request, &answer); err != nil {
		return nil, err
	}
	found := map[string]entry{}
	for _, e := range answer.Entries {
		if key := string(e.Key); !hasAnyPrefix(key, unrecorded) {
			found[key] = e
		}
	}
	return found, nil
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// etcd asks the JSON interface of etcd, which listens on a socket in the cluster's directory.
func (c *Cluster) etcd(ctx context.Context, what string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("encoding a request to etcd: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/kv/"+what, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating a request to etcd: %w", err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.Dir, etcdSocket))
	}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking etcd: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking etcd for %s: %s", what, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("reading the answer of etcd: %w", err)
	}
	return nil
}
