package processnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
		if err != nil {
			return fmt.Errorf("probing: %w", err)
		}
		connection.Close()
		return nil
	default:
		return fmt.Errorf("the process node knows httpGet and tcpSocket probes only")
	}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(ip, port)+get.Path, nil)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	// Like the kubelet: a probe asks whether a process answers, not who it is.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // See above.
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("probing: %s: %s", response.Status, body)
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
