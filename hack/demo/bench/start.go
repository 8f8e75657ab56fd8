package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	startGoal = 1000
	startPoll = 2 * time.Millisecond
	// The arguments of the virtual kubelet that say where it serves /readyz.
	addressFlag, healthPortFlag = "--node-ip=", "--health-port="
)

// starts kills the virtual kubelet and measures how long the next process needs until its readiness
// probe succeeds, with the compiled policies in its cache.
func (b *bench) starts(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	for range b.runs {
		b.logf("start: the virtual kubelet is killed")
		before, err := findVirtualKubelet("/proc", os.Getpid())
		if err != nil {
			return err
		}
		if err := killVirtualKubelets(); err != nil {
			return err
		}
		next := before
		for next == before || next == "" {
			if err := pause(ctx, startPoll); err != nil {
				return fmt.Errorf("waiting for the next virtual kubelet: %w", err)
			}
			if next, err = findVirtualKubelet("/proc", os.Getpid()); err != nil {
				return err
			}
		}
		began := time.Now()
		url, err := readinessOf(next)
		if err != nil {
			return err
		}
		for !isServing(ctx, url) {
			if err := pause(ctx, startPoll); err != nil {
				return fmt.Errorf("waiting until the virtual kubelet is ready: %w", err)
			}
		}
		b.record.add(figure("start/virtual-kubelet-ready", "ms", float64(time.Since(began).Microseconds())/1000,
			"from the start of the process until its readiness probe succeeds; compiled policies are in the cache").bounded(valueGoal(startGoal)))
		if err := pause(ctx, idleSettle/5); err != nil {
			return err
		}
	}
	return nil
}

// findVirtualKubelet returns the folder in /proc of the virtual kubelet, or "".
func findVirtualKubelet(proc string, self int) (string, error) {
	all, err := list(proc, self)
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if p.name == virtualKubelet {
			return p.dir, nil
		}
	}
	return "", nil
}

// readinessOf returns the URL of the readiness probe of a virtual kubelet.
func readinessOf(dir string) (string, error) {
	arguments, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return "", fmt.Errorf("reading the arguments of the virtual kubelet: %w", err)
	}
	address, port := "", ""
	for argument := range strings.SplitSeq(string(arguments), "\x00") {
		if value, found := strings.CutPrefix(argument, addressFlag); found {
			address = value
		}
		if value, found := strings.CutPrefix(argument, healthPortFlag); found {
			port = value
		}
	}
	if address == "" || port == "" {
		return "", fmt.Errorf("the virtual kubelet has no %s or no %s", addressFlag, healthPortFlag)
	}
	return fmt.Sprintf("http://%s:%s/readyz", address, port), nil
}

// isServing reports whether a URL answers with 200.
func isServing(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
