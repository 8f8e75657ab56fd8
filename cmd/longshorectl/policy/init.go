package policy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// projects holds a folder of templates for each language.
//
//go:embed project
var projects embed.FS

const (
	languageGo     = "go"
	templateSuffix = ".tmpl"
)

// Project is a new policy.
type Project struct {
	// Name of the policy, a DNS label. It names the Go module and the OffloadingPolicy too.
	Name string `json:"name"`
	// Folder in which the project is created; it must not exist or be empty.
	Folder string `json:"folder"`
	// SDK is the folder sdk of a clone of Longshore, as go.mod names it.
	SDK string `json:"sdk"`
	// Files that were written, relative to Folder.
	Files []string `json:"files"`
}

const initExample = `  # A policy in Go that builds, tests and conforms at once
  longshorectl policy init my-policy --sdk ~/longshore/sdk
  cd my-policy && go mod tidy && make test conform`

func initCommand(streams Streams) *cobra.Command {
	var format output.Format
	var language, sdk, folder string
	command := &cobra.Command{
		Use:   "init NAME --sdk FOLDER",
		Short: "Create a policy project that builds, tests and conforms at once",
		Long: "Create a policy project in Go: manifest, policy, test, golden cases, Makefile. It labels offloaded pods with their virtual\n" +
			"node; change it into your policy. NAME names the policy, and its folder unless --folder does.\n" +
			"Exit codes: 0 created, 1 it cannot be written, 2 wrong command line.",
		Example: initExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return output.Usagef("want one name for the policy, got %d arguments", len(args))
			}
			if problems := validation.IsDNS1123Label(args[0]); len(problems) > 0 {
				return output.Usagef("invalid name %q: %s", args[0], strings.Join(problems, "; "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if language != languageGo {
				return output.Usagef("invalid --lang %q: there is a project for %s only; conformance/guests has policies in C and AssemblyScript", language, languageGo)
			}
			project, err := newProject(args[0], folder, sdk)
			if err != nil {
				return err
			}
			if err := project.write(); err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			return output.Print(streams.Out, format, project, func(w io.Writer) error { return project.text(w, style) })
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVar(&language, "lang", languageGo, "language of the project")
	flags.StringVar(&sdk, "sdk", "", "the folder sdk of a clone of Longshore; required until the SDK is released")
	flags.StringVar(&folder, "folder", "", "where to create the project; ./NAME when empty")
	return command
}

func newProject(name, folder, sdk string) (*Project, error) {
	if sdk == "" {
		return nil, output.Usagef("--sdk is missing: the SDK is not released yet, so name the folder sdk of a clone of Longshore")
	}
	absolute, err := filepath.Abs(sdk)
	if err != nil {
		return nil, fmt.Errorf("reading --sdk %q: %w", sdk, err)
	}
	content, err := os.ReadFile(filepath.Join(absolute, "go.mod"))
	if err != nil || !bytes.Contains(content, []byte("module github.com/longshore-dev/longshore/sdk\n")) {
		return nil, output.Usagef("invalid --sdk %q: it has no go.mod of Longshore's SDK", sdk)
	}
	if folder == "" {
		folder = name
	}
	return &Project{Name: name, Folder: folder, SDK: filepath.ToSlash(absolute)}, nil
}

// write creates the files. It never overwrites one, and an existing folder must be empty.
func (p *Project) write() error {
	entries, err := os.ReadDir(p.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("creating the project: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("creating the project: folder %s is not empty", p.Folder)
	}
	root := path.Join("project", languageGo)
	err = fs.WalkDir(projects, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return p.writeFile(name, strings.TrimSuffix(strings.TrimPrefix(name, root+"/"), templateSuffix))
	})
	if err != nil {
		return fmt.Errorf("creating the project: %w", err)
	}
	return nil
}

func (p *Project) writeFile(source, target string) error {
	if target == "gitignore" {
		target = ".gitignore" // embed leaves out files that begin with a dot
	}
	text, err := projects.ReadFile(source)
	if err != nil {
		return fmt.Errorf("reading the template %s: %w", source, err)
	}
	parsed, err := template.New(target).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return fmt.Errorf("reading the template %s: %w", source, err)
	}
	var content bytes.Buffer
	if err := parsed.Execute(&content, p); err != nil {
		return fmt.Errorf("filling the template %s: %w", source, err)
	}
	file := filepath.Join(p.Folder, filepath.FromSlash(target))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	if err := os.WriteFile(file, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	p.Files = append(p.Files, target)
	return nil
}

func (p *Project) text(w io.Writer, style output.Style) error {
	out := &printer{w: w, style: style}
	out.line("%s %s", style.Good("Created policy"), p.Name)
	for _, file := range p.Files {
		out.line("  %s", path.Join(filepath.ToSlash(p.Folder), file))
	}
	out.line("")
	out.section("Next")
	out.line("  cd %s && go mod tidy && make test conform", p.Folder)
	return out.err
}
