package status

import (
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// width is that of sentences, unless the terminal has less.
const width = 80

// newPrinter returns a printer for a terminal or another writer.
func newPrinter(w io.Writer) *printer {
	p := &printer{w: w, width: width}
	if columns := output.WidthOf(w); columns > 0 {
		p.width = min(width, columns)
	}
	return p
}

// text prints first what is wrong, then what is peered, granted and used.
func (r *Report) text(w io.Writer, style output.Style) error {
	p := newPrinter(w)
	p.line(output.Sprintf("Cluster %s at %s", r.Cluster.ClusterID, r.Cluster.APIServer))
	p.problems(r, style)
	p.peers(r.Peers, style)
	p.shares(r.Peers, style)
	if len(r.Namespaces) > 0 {
		var rows [][]string
		for _, n := range r.Namespaces {
			rows = append(rows, []string{n.Name, n.RemoteName, n.Pods, n.Phase})
		}
		p.section(style, "Offloaded namespaces", []string{"NAMESPACE", "REMOTE NAME", "PODS", "PHASE"}, rows)
	}
	return p.err
}

// details prints one peer.
func (r *Report) details(w io.Writer, style output.Style, peer *Peer) error {
	p := newPrinter(w)
	p.line(output.Sprintf("Peer %s of cluster %s", peer.ClusterID, r.Cluster.ClusterID))
	p.problems(r, style)
	rows := [][]string{
		{"Role:", peer.Role}, {"Tenant:", peer.Tenant}, {"Authentication:", peer.Authentication}, {"Offloading:", peer.Offloading}, {"Networking:", peer.Networking},
		{"API server:", strings.TrimSpace(peer.APIServer + " " + peer.APIServerStatus)},
		{"Namespace here:", peer.LocalNamespace}, {"Namespace there:", peer.RemoteNamespace},
	}
	p.line("")
	if p.err == nil {
		p.err = output.Table(w, rows[0], rows[1:])
	}
	p.shares([]Peer{*peer}, style)
	return p.err
}

// printer prints until the first error.
type printer struct {
	w     io.Writer
	width int
	err   error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

func (p *printer) section(style output.Style, title string, header []string, rows [][]string) {
	p.line("")
	p.line(string(style.Title(title)))
	if p.err == nil {
		p.err = output.Table(p.w, header, rows)
	}
}

func (p *printer) problems(r *Report, style output.Style) {
	problems, local := r.Problems, r.Cluster.ClusterID
	p.line("")
	if len(r.Unread) > 0 {
		p.fold("", "Not read: "+strings.Join(r.Unread, ", ")+". You have no right to list them: problems with them are not found.")
		p.line("")
	}
	switch {
	case len(problems) > 0:
	case len(r.Unread) > 0:
		p.line(string(style.Title("No problem was found in what could be read.")))
	default:
		p.line(string(style.Good("No problem was found.")))
	}
	if len(problems) == 0 {
		return
	}
	p.line(string(style.Bad(fmt.Sprintf("Problems (%d)", len(problems)))))
	for i, problem := range joined(problems) {
		number := fmt.Sprintf("%2d. ", i+1)
		subject := problem.Object
		if problem.Peer != "" {
			subject = problem.Peer + ": " + subject
		}
		actor := "Longshore retries."
		switch problem.Actor {
		case "":
		case local:
			actor = "You must act, the administrator of " + local + "."
		default:
			actor = "The administrator of " + problem.Actor + " must act."
		}
		p.fold(number, subject+": "+problem.Message)
		p.fold(strings.Repeat(" ", len(number)), actor+" "+problem.Action)
	}
}

// joined makes one of successive problems that differ in their objects only; the action is that of the first.
func joined(problems []Problem) []Problem {
	var found []Problem
	for i := 0; i < len(problems); {
		first, end := problems[i], i+1
		for end < len(problems) && problems[end].Peer == first.Peer && problems[end].Message == first.Message && problems[end].Actor == first.Actor {
			if end-i < named {
				first.Object += ", " + problems[end].Object
			}
			end++
		}
		if more := end - i - named; more > 0 {
			first.Object += fmt.Sprintf(" and %d more", more)
		}
		found, i = append(found, first), end
	}
	return found
}

// fold prints a text behind a prefix in lines of the width; those after the first one are indented.
func (p *printer) fold(prefix, text string) {
	hang := len(strings.TrimLeft(prefix, " "))
	for _, line := range output.Fold(prefix+output.Sprintf("%s", text), hang, p.width) {
		p.line(line)
	}
}

func (p *printer) peers(peers []Peer, style output.Style) {
	if len(peers) == 0 {
		p.line("")
		p.line("No peers. Run longshorectl peer to use another cluster.")
		return
	}
	var rows [][]string
	for _, peer := range peers {
		rows = append(rows, []string{peer.ClusterID, peer.Role, peer.Authentication, peer.Offloading, peer.Networking, peer.Tenant})
	}
	p.section(style, "Peers", []string{"PEER", "ROLE", "AUTHENTICATION", "OFFLOADING", "NETWORKING", "TENANT"}, rows)
}

// shares prints what is granted and used.
func (p *printer) shares(peers []Peer, style output.Style) {
	var grants, nodes [][]string
	for i := range peers {
		for _, s := range peers[i].Slices {
			state := s.State
			if s.Cordoned != "" {
				state += ",cordoned"
			}
			grants = append(grants, append([]string{s.Name, peers[i].ClusterID, s.Action, state}, shares(s.Used, s.Granted)...))
		}
		for _, n := range peers[i].VirtualNodes {
			nodes = append(nodes, append([]string{n.Name, peers[i].ClusterID, n.Node, n.Kubelet}, shares(n.Used, n.Capacity)...))
		}
	}
	if len(grants) > 0 {
		p.section(style, "Resource slices (requested by pods / granted)", []string{"SLICE", "PEER", "ACTION", "STATE", "CPU", "MEMORY", "PODS"}, grants)
	}
	if len(nodes) > 0 {
		p.section(style, "Virtual nodes (requested by pods / capacity)", []string{"NODE", "PEER", "NODE STATE", "KUBELET", "CPU", "MEMORY", "PODS"}, nodes)
	}
}

// shares returns the cells of cpu, memory and pods.
func shares(used, total corev1.ResourceList) []string {
	var cells []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		have, ok := total[name]
		if !ok {
			cells = append(cells, "")
			continue
		}
		requested := used[name]
		cells = append(cells, requested.String()+"/"+have.String())
	}
	return cells
}
