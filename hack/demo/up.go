package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/conformance/testplane/binary"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	"github.com/longshore-dev/longshore/hack/demo/session"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	statePoll = 100 * time.Millisecond
	// stepPatience bounds each step: on a slow machine, a step that has not ended by then never will.
	stepPatience = 3 * time.Minute
	// recovery is how long the clusters of an earlier run may take to become healthy. Kwok
	// needs seconds if the supervisor has just started it again.
	recovery = time.Minute
)

// upCommand is `make demo`.
type upCommand struct {
	session   *session.Session
	longshore string
	out       *console.Console
	// supervisor is the process that this run started; nil when it started none.
	supervisor *exec.Cmd
}

func (u *upCommand) run(ctx context.Context) error {
	lock, err := u.session.LockUp()
	if errors.Is(err, session.ErrBusy) {
		return errors.New("another `make demo` is working in this clone: wait for it, or end it first")
	}
	if err != nil {
		return err
	}
	err = u.show(ctx)
	if err != nil {
		u.explain(ctx, err)
		err = errShown
	}
	return errors.Join(err, lock.Release())
}

// explain prints what failed and what still runs. If the run was interrupted, what it had
// started is stopped.
func (u *upCommand) explain(ctx context.Context, err error) {
	if ctx.Err() == nil {
		u.out.Line("\nError: %v", err)
		u.out.Line("Logs are in %s; `make demo` tries again, `make demo-down` stops everything.", u.session.LogDir())
		return
	}
	if alive, _, aliveErr := u.session.Alive(); u.supervisor == nil && aliveErr == nil && !alive {
		u.out.Line("\nInterrupted; nothing was started.")
		return
	}
	if u.supervisor == nil {
		u.out.Line("\nInterrupted; the clusters were running before and go on. `make demo-down` stops them.")
		return
	}
	if _, stopErr := u.session.Stop(context.WithoutCancel(ctx)); stopErr != nil {
		u.out.Line("\nInterrupted, and stopping failed: %v. `make demo-down` tries again.", stopErr)
		return
	}
	// The supervisor has ended, and its parent reaps it. The error is its exit status.
	_ = u.supervisor.Wait()
	u.out.Line("\nInterrupted; what this run started is stopped.")
}

func (u *upCommand) show(ctx context.Context) error {
	start := time.Now()
	if err := u.clusters(ctx); err != nil {
		return err
	}
	connection, err := rig.LoadConnection(connectionPath(u.session))
	if err != nil {
		return err
	}
	r, err := rig.Open(connection)
	if err != nil {
		return err
	}
	for _, step := range u.steps(r) {
		err := u.out.Step(step.title, func(progress func(string)) error {
			ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
			defer cancel()
			return step.run(ctx, progress)
		})
		if err != nil {
			return err
		}
	}
	return u.report(ctx, r, time.Since(start))
}

type step struct {
	title string
	run   func(context.Context, rig.Progress) error
}

func (u *upCommand) steps(r *rig.Rig) []step {
	return []step{
		{"Installing Longshore from charts/longshore in both clusters", func(ctx context.Context, progress rig.Progress) error {
			if err := r.PrepareProvider(ctx); err != nil {
				return err
			}
			if err := r.Install(ctx, r.AllowAPIAccess); err != nil {
				return err
			}
			if err := r.Rome.WaitForDeployments(ctx, rig.Namespace, progress); err != nil {
				return err
			}
			return r.Milan.WaitForDeployments(ctx, rig.Namespace, progress)
		}},
		{"Peering rome with milan (longshorectl peer)", r.Peer},
		{"Creating virtual node milan in rome of a resource slice", func(ctx context.Context, progress rig.Progress) error {
			return r.CreateVirtualNode(ctx, rig.Capacity("64", "256Gi", "500"), progress)
		}},
		{"Offloading namespace shop", func(ctx context.Context, progress rig.Progress) error {
			return r.Rome.Offload(ctx, application.Namespace, offloadingv1beta1.RemotePodOffloadingStrategyType, progress)
		}},
		{"Running the shop: every pod of rome runs in milan", func(ctx context.Context, progress rig.Progress) error {
			return r.RunApplication(ctx, progress)
		}},
		{"Checking what happened", func(ctx context.Context, _ rig.Progress) error { return r.Verify(ctx, application.Namespace) }},
	}
}

// clusters makes sure that both clusters run: those of an earlier run if there are, which
// must be healthy then, new ones otherwise.
func (u *upCommand) clusters(ctx context.Context) error {
	alive, state, err := u.session.Alive()
	if err != nil {
		return err
	}
	if alive && state.Ready {
		return u.out.Step("Clusters rome and milan are running already", func(progress func(string)) error { return u.healthy(ctx, progress) })
	}
	if alive {
		if err := u.out.Step("Stopping a half-started earlier run", func(func(string)) error {
			_, err := u.session.Stop(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	if _, err := binary.Locate(ctx); err != nil {
		return err
	}
	return u.out.Step("Starting clusters rome (consumer) and milan (provider)", func(progress func(string)) error {
		if err := u.startSupervisor(); err != nil {
			return err
		}
		return u.waitReady(ctx, progress)
	})
}

func (u *upCommand) healthy(ctx context.Context, progress func(string)) error {
	connection, err := rig.LoadConnection(connectionPath(u.session))
	if err != nil {
		return err
	}
	r, err := rig.Open(connection)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recovery, fmt.Errorf("not better after %s: `make demo-down` ends them, `make demo` starts new ones", recovery))
	defer cancel()
	return r.Healthy(ctx, progress)
}

// startSupervisor starts the supervisor in a session of its own, so that a Ctrl-C in
// this terminal does not reach it. It inherits its lock: from the first moment on
// other commands find it alive and can stop it.
func (u *upCommand) startSupervisor() (err error) {
	lock, err := u.session.LockSupervisor()
	if err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	log, err := os.Create(filepath.Join(u.session.LogDir(), "supervisor.log"))
	if err != nil {
		return fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer log.Close()
	if err := u.session.Write(session.State{}); err != nil {
		return err
	}
	cmd := exec.Command(self, "supervise", "--dir", u.session.Dir(), "--longshore", u.longshore) // It outlives this command.
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{lock.File()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	u.supervisor = cmd
	return nil
}

func (u *upCommand) waitReady(ctx context.Context, progress func(string)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepPatience, fmt.Errorf("not done after %s", stepPatience))
	defer cancel()
	for {
		alive, _, err := u.session.Alive()
		if err != nil {
			return err
		}
		// Read after the lock was tested: a supervisor that has ended has written its last state.
		state, err := u.session.Read()
		if err != nil {
			return err
		}
		switch {
		case state.Error != "":
			return errors.New(state.Error)
		case alive && state.Ready:
			return nil
		case !alive:
			return fmt.Errorf("the supervisor ended: see %s", filepath.Join(u.session.LogDir(), "supervisor.log"))
		}
		progress(state.Step)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(statePoll):
		}
	}
}
