package processnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eagerProbing is how often a container is asked that has not answered yet: processes
// start faster than containers. These questions count as failures only once a period.
const eagerProbing = 200 * time.Millisecond

// tally counts a probe's answers against its thresholds.
type tally struct {
	probe               *corev1.Probe
	successes, failures int32
	// counted is when a failure was counted last.
	counted time.Time
}

// verdict is what the answers so far amount to.
type verdict int

const (
	undecided verdict = iota
	succeeded
	failed
)

func (t *tally) period() time.Duration {
	return time.Duration(max(t.probe.PeriodSeconds, 1)) * time.Second
}

// record takes an answer.
func (t *tally) record(ok bool, now time.Time) verdict {
	if ok {
		t.successes, t.failures, t.counted = t.successes+1, 0, time.Time{}
		if t.successes >= max(t.probe.SuccessThreshold, 1) {
			return succeeded
		}
		return undecided
	}
	t.successes = 0
	if t.counted.IsZero() || now.Sub(t.counted) >= t.period() {
		t.failures, t.counted = t.failures+1, now
	}
	if t.failures >= max(t.probe.FailureThreshold, 1) {
		return failed
	}
	return undecided
}

// probeOnce asks a probe's question; nil means yes.
func probeOnce(ctx context.Context, probe *corev1.Probe, container *corev1.Container, ip string) error {
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return probeHTTP(ctx, probe.HTTPGet, container, ip)
	case probe.TCPSocket != nil:
		port, err := portNumber(probe.TCPSocket.Port, container)
		if err != nil {
			return err
		}
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host(probe.TCPSocket.Host, ip), port))
		if err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		connection.Close()
		return nil
	default:
		return errors.New("the process node knows httpGet and tcpSocket probes only")
	}
}

func host(wanted, ip string) string {
	if wanted != "" {
		return wanted
	}
	return ip
}

func probeHTTP(ctx context.Context, get *corev1.HTTPGetAction, container *corev1.Container, ip string) error {
	port, err := portNumber(get.Port, container)
	if err != nil {
		return err
	}
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host(get.Host, ip), port)+get.Path, nil)
	if err != nil {
		return fmt.Errorf("forming the request: %w", err)
	}
	request.Header.Set("User-Agent", "kube-probe")
	for _, header := range get.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
		}
		request.Header.Add(header.Name, header.Value)
	}
	// Like the kubelet: a probe checks that a process answers, not its identity.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

func portNumber(port intstr.IntOrString, container *corev1.Container) (string, error) {
	if port.Type == intstr.Int {
		return strconv.Itoa(port.IntValue()), nil
	}
	for _, p := range container.Ports {
		if p.Name == port.StrVal {
			return strconv.Itoa(int(p.ContainerPort)), nil
		}
	}
	return "", fmt.Errorf("container %q has no port named %q", container.Name, port.StrVal)
}
