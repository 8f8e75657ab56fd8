package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// process is a program of the node that can be killed and started again.
type process struct {
	name, binary string
	args         []string
	log          string

	command *exec.Cmd
	// done is closed when it has ended.
	done chan struct{}
}

// start starts the program. Its log goes on where that of an earlier run ended.
func (p *process) start() error {
	if err := os.MkdirAll(filepath.Dir(p.log), 0o700); err != nil {
		return fmt.Errorf("creating the folder of logs: %w", err)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	defer log.Close()
	command := exec.Command(p.binary, p.args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.command, p.done = command, done
	go func() {
		// How it ended is in its log.
		_ = command.Wait()
		close(done)
	}()
	return nil
}

// kill ends the program as a crash would, and waits until it is gone.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}
