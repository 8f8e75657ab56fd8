package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/longshore-dev/longshore/hack/e2e/isolate"
)

// Interface is the network interface of a node.
const Interface = "eth0"

// Bridge is the network interface that connects the nodes.
const Bridge = "nodes"

// Node is a running node, seen from outside.
type Node struct {
	Config Config

	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// ConnectNodes makes the bridge of the nodes in the network namespace of this process.
func ConnectNodes(ctx context.Context, gateway string, prefixLength int) error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", Bridge, "type", "bridge"},
		{"addr", "add", gateway + "/" + strconv.Itoa(prefixLength), "dev", Bridge},
		{"link", "set", Bridge, "up"},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}

// DisconnectNodes undoes ConnectNodes.
func DisconnectNodes(ctx context.Context) error { return run(ctx, "ip", "link", "del", Bridge) }

// Start starts a node and returns when its control plane serves and its programs run. It ends
// when the process ID namespace of this process does.
func Start(ctx context.Context, config Config) (*Node, error) {
	n := &Node{Config: config, command: isolate.Command(RoleFirst)}
	n.command.Stderr = os.Stderr
	in, inErr := n.command.StdinPipe()
	out, outErr := n.command.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, fmt.Errorf("creating the pipes of node %q: %w", config.Name, err)
	}
	n.in, n.out = in, bufio.NewReader(out)
	if err := n.command.Start(); err != nil {
		return nil, fmt.Errorf("starting node %q: %w", config.Name, err)
	}
	line, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of node %q: %w", config.Name, err)
	}
	for _, args := range [][]string{
		{"link", "add", config.Name, "type", "veth", "peer", "name", Interface, "netns", strconv.Itoa(n.command.Process.Pid)},
		{"link", "set", config.Name, "master", Bridge, "up"},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return nil, errors.Join(err, n.Stop())
		}
	}
	if err := n.Do(string(line)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting node %q: %w", config.Name, err), n.Stop())
	}
	return n, nil
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (n *Node) Kubeconfig() string {
	return n.Config.path("control-plane", "pki", "admin.kubeconfig")
}

// Do has the supervisor do what the line says: "kill NAME" or "start NAME", where NAME is
// containerd, kubelet, kube-proxy or control-plane.
func (n *Node) Do(line string) error {
	if _, err := io.WriteString(n.in, line+"\n"); err != nil {
		return fmt.Errorf("writing to the supervisor of node %q: %w", n.Config.Name, err)
	}
	reply, err := n.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the answer of the supervisor of node %q: %w", n.Config.Name, err)
	}
	var a answer
	if err := json.Unmarshal(reply, &a); err != nil {
		return fmt.Errorf("decoding the answer of the supervisor of node %q: %w", n.Config.Name, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Disconnect cuts the node off from the others, and from this process; Connect undoes it.
func (n *Node) Disconnect(ctx context.Context) error {
	return run(ctx, "ip", "link", "set", n.Config.Name, "down")
}

// Connect undoes Disconnect.
func (n *Node) Connect(ctx context.Context) error {
	return run(ctx, "ip", "link", "set", n.Config.Name, "up")
}

// Stop ends all processes of the node at once.
func (n *Node) Stop() error {
	if err := n.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing node %q: %w", n.Config.Name, err)
	}
	// It was killed.
	_ = n.command.Wait()
	return errors.Join(removeLink(n.Config.Name), RemoveCgroup(n.Config.CgroupRoot()))
}

// removeLink deletes the link between a node and the bridge. The kernel deletes it with the node's
// network namespace, too, but some time after the last process has ended: the next node of the name
// could not be connected.
func removeLink(name string) error {
	exists := func() bool {
		_, err := net.InterfaceByName(name)
		return err == nil
	}
	if !exists() {
		return nil
	}
	if err := run(context.Background(), "ip", "link", "del", name); err != nil && exists() {
		return err
	}
	return nil
}
