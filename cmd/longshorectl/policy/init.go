package policy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/sdk/c"
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/rust"
)

// projects holds a folder of templates for each language.
//
//go:embed project
var projects embed.FS

const (
	templateSuffix = ".tmpl"
	// commonTemplates is the folder of the files that projects in every language have.
	commonTemplates = "common"
	// pointTemplates is the folder, in that of a language, with a folder for each extension point.
	pointTemplates = "points"
)

// language is a language in which a project can be written.
type language struct {
	// setup installs what the project needs, before make; empty when it needs nothing.
	setup string
	// isSDKNeeded is set when the project refers to the folder of the SDK.
	isSDKNeeded bool
	// files are files of the SDK that become part of the project.
	files map[string]string
}

// languages are the languages of projects by the name of their templates' folder.
var languages = map[string]language{
	"go":             {setup: "go mod tidy", isSDKNeeded: true},
	"c":              {files: map[string]string{"longshore.h": c.Header}},
	"rust":           {files: map[string]string{rust.SourceFile: rust.Source}},
	"assemblyscript": {setup: "npm install", isSDKNeeded: true},
}

// Languages returns the values of --lang.
func Languages() []string { return slices.Sorted(maps.Keys(languages)) }

func languageNames() string { return strings.Join(Languages(), ", ") }

// Project is a new policy.
type Project struct {
	// Name of the policy, a DNS label. It names the Go module and the OffloadingPolicy too.
	Name string `json:"name"`
	// Folder in which the project is created; it must not exist or be empty.
	Folder string `json:"folder"`
	// Language of the project, a key of languages.
	Language string `json:"language"`
	// Point is the extension point that the policy answers.
	Point contract.Point `json:"point"`
	// SDK is the absolute path of the folder sdk of a clone of Longshore; empty when the
	// project does not refer to it.
	SDK string `json:"sdk,omitempty"`
	// Files that were written, relative to Folder.
	Files []string `json:"files"`
}

// sentences say what the policy of a new project does, for each extension point.
var sentences = map[contract.Point]string{
	contract.PodMutation:            "it labels offloaded pods with the virtual node on which they run",
	contract.OffloadingPatch:        "it sends pods to the provider's nodes that are labeled for this consumer",
	contract.AntiAffinityPreset:     "it prefers different nodes for the pods of one application",
	contract.MetadataFilter:         "it keeps an internal label in this cluster",
	contract.ResourceMutation:       "it annotates reflected objects with the cluster that they come from",
	contract.ShadowPodAdmission:     "it denies pods of consumers with privileged containers",
	contract.ResourceSliceAdmission: "it denies slices of other classes than the default one",
}

// Sentence says what the policy does.
func (p *Project) Sentence() string { return sentences[p.Point] }

// Package is the package of the Go SDK for the extension point.
func (p *Project) Package() string { return strings.ToLower(string(p.Point)) }

func pointNames() string {
	var names []string
	for _, point := range contract.Points() {
		names = append(names, string(point))
	}
	return strings.Join(names, ", ")
}

const initExample = `  # A policy in Go that builds, tests and conforms at once
  longshorectl policy init my-policy --sdk ~/longshore/sdk
  cd my-policy && go mod tidy && make test conform

  # The same in C
  longshorectl policy init my-policy --lang c
  cd my-policy && make test conform

  # A policy in Rust that decides in the provider about the pods of consumers
  longshorectl policy init my-guard --lang rust --point ShadowPodAdmission`

func initCommand(streams Streams) *cobra.Command {
	var format output.Format
	var lang, sdk, folder, point string
	command := &cobra.Command{
		Use:   "init NAME [--lang LANGUAGE] [--point POINT] [--sdk FOLDER]",
		Short: "Create a policy project that builds, tests and conforms at once",
		Long: "Create a policy project: manifest, policy, golden cases, Makefile. The policy answers one extension\n" +
			"point; change it into yours. NAME names the policy, and its folder unless --folder does.\n" +
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
			if _, known := languages[lang]; !known {
				return output.Usagef("invalid --lang %q: the languages are %s", lang, languageNames())
			}
			if _, known := sentences[contract.Point(point)]; !known {
				return output.Usagef("invalid --point %q: the extension points are %s", point, pointNames())
			}
			project, err := newProject(args[0], folder, lang, sdk)
			if err != nil {
				return err
			}
			project.Point = contract.Point(point)
			if err := project.write(); err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			return output.Print(streams.Out, format, project, func(w io.Writer) error { return project.text(w, style) })
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVar(&lang, "lang", "go", "language of the project: "+languageNames())
	flags.StringVar(&sdk, "sdk", "", "the folder sdk of a clone of Longshore; required until the SDK is released, but not for c and rust")
	flags.StringVar(&point, "point", string(contract.PodMutation), "extension point that the policy answers: "+pointNames())
	flags.StringVar(&folder, "folder", "", "where to create the project; ./NAME when empty")
	return command
}

func newProject(name, folder, lang, sdk string) (*Project, error) {
	if folder == "" {
		folder = name
	}
	if !languages[lang].isSDKNeeded {
		return &Project{Name: name, Folder: folder, Language: lang}, nil
	}
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
	return &Project{Name: name, Folder: folder, Language: lang, SDK: filepath.ToSlash(absolute)}, nil
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
	var roots []string
	for _, folder := range []string{p.Language, commonTemplates} {
		roots = append(roots, path.Join("project", folder), path.Join("project", folder, pointTemplates, string(p.Point)))
	}
	for _, root := range roots {
		err := fs.WalkDir(projects, root, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == pointTemplates:
				return fs.SkipDir
			case entry.IsDir():
				return nil
			}
			return p.writeTemplate(name, strings.TrimSuffix(strings.TrimPrefix(name, root+"/"), templateSuffix))
		})
		if err != nil {
			return fmt.Errorf("creating the project: %w", err)
		}
	}
	for name, content := range languages[p.Language].files {
		if err := p.writeFile(name, []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Project) writeTemplate(source, target string) error {
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
	return p.writeFile(target, content.Bytes())
}

func (p *Project) writeFile(target string, content []byte) error {
	file := filepath.Join(p.Folder, filepath.FromSlash(target))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
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
	setup := ""
	if command := languages[p.Language].setup; command != "" {
		setup = command + " && "
	}
	out.line("  cd %s", p.Folder)
	out.line("  %smake test conform", setup)
	return out.err
}
