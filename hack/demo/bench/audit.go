package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

// auditEvent is the part of audit.k8s.io/v1 Event that is counted.
type auditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	URI   string `json:"requestURI"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Object *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// request is the key by which requests are counted.
type request struct {
	// Cluster is the cluster that was asked.
	Cluster string
	// Who is a component of Longshore, or the user when it is none.
	Who string
	// Ours is true if Who is a component of Longshore.
	Ours     bool
	Verb     string
	Resource string
}

// lease reports whether the request is about a lease.
func (r request) lease() bool { return r.Resource == "leases" }

// counts are numbers of requests.
type counts map[request]int

// sum adds up the requests that keep wants.
func (c counts) sum(keep func(request) bool) int {
	total := 0
	for key, n := range c {
		if keep(key) {
			total += n
		}
	}
	return total
}

// component names the part of Longshore that a user is, seen from the named cluster.
func component(username string) (who string, ours bool) {
	if name, ok := strings.CutPrefix(username, "system:serviceaccount:"+rig.Namespace+":"); ok {
		return strings.TrimPrefix(name, "longshore-"), true
	}
	// A virtual kubelet has the account of its VirtualNode in the consumer, and is the subject of its
	// ResourceSlice in the provider. Both begin with the name of the provider in this testbed.
	slice := strings.TrimPrefix(rig.Pair.Slice(rig.Node).User, rig.Node)
	switch {
	case strings.HasPrefix(username, "system:serviceaccount:"+rig.Pair.ConsumerTenant()+":"),
		strings.HasPrefix(username, rig.Node) && strings.HasSuffix(username, slice):
		return "virtual-kubelet", true
	case username == rig.Pair.ControlPlane().User:
		return "replicator", true
	}
	return username, false
}

// countRequests reads an audit log and counts each request once: a watch when it
// begins, all others when they are answered.
func countRequests(cluster string, log io.Reader) (counts, error) {
	found := counts{}
	lines := bufio.NewReaderSize(log, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 && !errors.Is(err, io.EOF) {
			var event auditEvent
			if err := json.Unmarshal(line, &event); err != nil {
				return nil, fmt.Errorf("reading a line of the audit log of %q: %w", cluster, err)
			}
			if counted(&event) {
				found[event.request(cluster)]++
			}
		}
		// A last line without its end is still being written: the next count has it.
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log of %q: %w", cluster, err)
		}
	}
}

func counted(event *auditEvent) bool {
	if event.Verb == "watch" {
		return event.Stage == "ResponseStarted"
	}
	return event.Stage == "ResponseComplete" || event.Stage == "Panic"
}

func (e *auditEvent) request(cluster string) request {
	r := request{Cluster: cluster, Verb: e.Verb}
	r.Who, r.Ours = component(e.User.Username)
	if e.Object != nil {
		r.Resource = e.Object.Resource
		if e.Object.Subresource != "" {
			r.Resource += "/" + e.Object.Subresource
		}
	} else {
		r.Resource, _, _ = strings.Cut(e.URI, "?")
	}
	return r
}

// auditLogs are the growing audit logs of both clusters, and how much of each was there at the mark.
type auditLogs struct {
	paths map[string]string
	from  map[string]int64
}

// mark remembers the ends of the logs: what comes after them is counted.
func (a *auditLogs) mark() error {
	a.from = map[string]int64{}
	for cluster, path := range a.paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("marking the audit log of %q: %w", cluster, err)
		}
		a.from[cluster] = info.Size()
	}
	return nil
}

// since counts the requests after the mark.
func (a *auditLogs) since() (counts, error) {
	all := counts{}
	for cluster, path := range a.paths {
		found, err := countFrom(cluster, path, a.from[cluster])
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found) // a request names its cluster
	}
	return all, nil
}

func countFrom(cluster, path string, from int64) (counts, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log of %q: %w", cluster, err)
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("seeking in the audit log of %q: %w", cluster, err)
	}
	return countRequests(cluster, file)
}
