package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/longshore-dev/longshore/hack/demo/rig"
)

const (
	// profileServer is where a virtual kubelet with --enable-profiling serves.
	profileServer = "http://127.0.0.1:6060/debug/pprof/"
	cpuProfile    = 10 * time.Second
)

// profiling lets the virtual kubelet serve profiles.
func profiling(cluster string, values map[string]any) {
	if cluster != rig.Consumer {
		return
	}
	kubelet, ok := values["virtualKubelet"].(map[string]any)
	if !ok {
		kubelet = map[string]any{}
		values["virtualKubelet"] = kubelet
	}
	kubelet["extraArgs"] = []any{"--enable-profiling"}
}

// profile saves a profile of the virtual kubelet, when profiles are wanted.
func (b *bench) profile(ctx context.Context, kind, name string) error {
	if b.profiles == "" {
		return nil
	}
	if kind == "profile" {
		kind += "?seconds=" + strconv.Itoa(int(cpuProfile.Seconds()))
	}
	content, err := askProfile(ctx, kind)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return fmt.Errorf("making the folder of the profiles: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.profiles, name+".pprof"), content, 0o644); err != nil {
		return fmt.Errorf("saving a profile: %w", err)
	}
	return nil
}

// askProfile returns a profile of the virtual kubelet.
func askProfile(ctx context.Context, kind string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, profileServer+kind, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for a profile: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for a profile: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking for a profile: %s", response.Status)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading a profile: %w", err)
	}
	return content, nil
}
