package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// watchInterval is the time between two looks at the files of a project.
const watchInterval = 500 * time.Millisecond

const watchExample = `  # Build and test on each save, and load what passes into the cluster: the next pod shows it
  longshorectl policy watch --spec policy.yaml --apply --kubeconfig rome.kubeconfig`

func watchCommand(streams Streams) *cobra.Command {
	var to target
	var apply bool
	command := &cobra.Command{
		Use:   "watch [FOLDER]",
		Short: "Build, test and push a project whenever one of its files is saved",
		Long: "Build the module of a project and ask it the golden cases in its folder vectors, if it has one, now and whenever a file of the project is saved.\n" +
			"With --apply, a module that passes is loaded into the cluster, as policy push does. Errors are printed, and the command goes on\n" +
			"until it is interrupted.\n" +
			"Exit codes: 0 interrupted, 1 the folder cannot be read, 2 wrong command line.",
		Example: watchExample,
		Args:    atMostOneFolder,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := folderOf(args)
			if _, err := languageOf(folder); err != nil {
				return err
			}
			w := &watcher{folder: folder, print: (&printer{w: streams.Out, style: output.StyleOf(streams.Out, streams.Getenv)}).line}
			w.run = func(ctx context.Context) error { return streams.rebuild(ctx, folder, &to, apply, w.print) }
			ticker := time.NewTicker(watchInterval)
			defer ticker.Stop()
			return w.watch(cmd.Context(), ticker.C)
		},
	}
	flags := command.Flags()
	to.addTo(flags)
	flags.BoolVar(&apply, "apply", false, "load the module into the cluster when its tests pass")
	return command
}

// rebuild builds, tests and pushes a project once.
func (s Streams) rebuild(ctx context.Context, folder string, to *target, apply bool, log func(string, ...any)) error {
	built, err := s.build(ctx, folder)
	if err != nil {
		return err
	}
	log("built   %s, %s", built.File, size(built.Bytes))
	if isGood, err := s.tryModule(ctx, built.File, filepath.Join(folder, "vectors"), log); err != nil || !isGood || !apply {
		return err
	}
	pushed, err := s.prepare(ctx, built.File, to)
	if err != nil {
		return err
	}
	if err := to.push(ctx, pushed); err != nil {
		return err
	}
	log("pushed  OffloadingPolicy %s", pushed.Policy.Name)
	return nil
}

// tryModule loads a module as a cluster does, and asks it the golden cases of a folder, which may be
// absent. It reports whether all of them passed.
func (s Streams) tryModule(ctx context.Context, file, vectors string, log func(string, ...any)) (bool, error) {
	if _, err := os.Stat(vectors); errors.Is(err, fs.ErrNotExist) {
		if _, err := s.prepare(ctx, file, &target{}); err != nil {
			return false, err
		}
		log("loaded  there are no golden cases: the project has no folder %s", filepath.Base(vectors))
		return true, nil
	}
	tested, err := s.test(ctx, file, vectors)
	if err != nil {
		return false, err
	}
	if tested.Failed > 0 {
		return false, tested.text(printerFunc(log), output.Colored(false))
	}
	log("tested  %d cases", tested.Passed)
	return true, nil
}

// printerFunc writes lines to a function.
type printerFunc func(string, ...any)

// Write implements io.Writer.
func (f printerFunc) Write(text []byte) (int, error) {
	f("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// watcher runs something whenever a project changes.
type watcher struct {
	folder string
	run    func(context.Context) error
	print  func(string, ...any)
	// last are the files of the last look; nil before the first.
	last map[string]time.Time
}

// watch looks at the project at once and after each tick, until the context ends.
func (w *watcher) watch(ctx context.Context, ticks <-chan time.Time) error {
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
	}
}

// look runs the first time, and when a file has changed since the last time. A failure of the
// run is printed.
func (w *watcher) look(ctx context.Context) error {
	now, err := w.files()
	if err != nil {
		return err
	}
	if w.last != nil && !isChanged(w.last, now) {
		return nil
	}
	w.last = now
	if err := w.run(ctx); err != nil && ctx.Err() == nil {
		w.print("failed  %v", err)
	}
	return nil
}

// isChanged reports whether files were added, removed or saved.
func isChanged(before, after map[string]time.Time) bool {
	if len(before) != len(after) {
		return true
	}
	for name, saved := range after {
		if had, known := before[name]; !known || !had.Equal(saved) {
			return true
		}
	}
	return false
}

// files returns when each file of the project was saved, without what a build makes.
func (w *watcher) files() (map[string]time.Time, error) {
	saved := map[string]time.Time{}
	err := filepath.WalkDir(w.folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != w.folder:
			return nil // removed meanwhile
		case err != nil:
			return err
		case entry.IsDir() && name != w.folder && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir() || strings.HasPrefix(entry.Name(), moduleFile) || strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		saved[name] = info.ModTime()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the project: %w", err)
	}
	return saved, nil
}
