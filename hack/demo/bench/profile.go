package main

import (
	"context"
	"errors"
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
	url := profileServer + kind
	if kind == "profile" {
		url += "?seconds=" + strconv.Itoa(int(cpuProfile.Seconds()))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking for a profile: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking for a profile: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking for a profile: %s", response.Status)
	}
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return fmt.Errorf("making the folder of the profiles: %w", err)
	}
	file, err := os.Create(filepath.Join(b.profiles, name+".pprof"))
	if err != nil {
		return fmt.Errorf("saving a profile: %w", err)
	}
	_, err = io.Copy(file, response.Body)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("saving a profile: %w", err)
	}
	return nil
}
