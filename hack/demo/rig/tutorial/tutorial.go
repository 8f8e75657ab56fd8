// Package tutorial runs the command blocks of a document, as its reader would, and compares
// the output with that in the document.
//
// A block fenced as "sh" is run by one shell for the whole document; a block fenced as
// "text" behind it is its output. Words after "sh" change that: "skip" and a reason is not run,
// "until" is run again until the output is as shown, "refused" must fail. The reasons are those of
// hack/docscheck. A block fenced as "yaml" and a name is a file of the reader, which is written.
// Other blocks are part of the text.
package tutorial

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is how a block is run.
type Kind string

// The kinds.
const (
	// Once is run, and must succeed.
	Once Kind = ""
	// Skip is not run.
	Skip Kind = "skip"
	// Until is run again until its output is as shown.
	Until Kind = "until"
	// Refused is run, and must fail.
	Refused Kind = "refused"
)

// Block is one command block.
type Block struct {
	// Line of the document at which the commands begin.
	Line int
	Kind Kind
	// Commands for the shell.
	Commands string
	// Output that the document shows; empty when it shows none.
	Output string
}

// Sections keeps the lines of a document below the headings given, such as "## Withdraw", and
// empties the others: lines keep their numbers. A section ends at the next heading, of any level.
// Without headings, everything is kept.
func Sections(document string, headings ...string) (string, error) {
	if len(headings) == 0 {
		return document, nil
	}
	lines, found, keep, inside := strings.Split(document, "\n"), 0, false, false
	for i, line := range lines {
		_, isFence := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case isFence:
			inside = !inside
		case !inside && heading.MatchString(line):
			if keep = slices.Contains(headings, line); keep {
				found++
			}
		}
		if !keep {
			lines[i] = ""
		}
	}
	if found != len(headings) {
		return "", fmt.Errorf("the document has %d of the headings %q", found, headings)
	}
	return strings.Join(lines, "\n"), nil
}

// Parse returns the command blocks of a document in Markdown.
func Parse(document string) ([]Block, error) {
	var blocks []Block
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		info, isFence := strings.CutPrefix(strings.TrimSpace(lines[i]), fence)
		if !isFence {
			continue
		}
		end := i + 1 + slices.IndexFunc(lines[i+1:], func(line string) bool { return strings.TrimSpace(line) == fence })
		if end == i {
			return nil, fmt.Errorf("line %d: the block has no end", i+1)
		}
		content := unindented(lines[i+1:end], strings.Index(lines[i], fence))
		words := strings.Fields(info)
		switch {
		case len(words) > 0 && words[0] == "sh":
			block, err := newBlock(i+2, words[1:], content)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, block)
		case len(words) == 2 && words[0] == "yaml":
			blocks = append(blocks, Block{Line: i + 2, Commands: "cat > '" + words[1] + "' <<'END OF FILE'\n" + content + "\nEND OF FILE"})
		case info == "text" && len(blocks) > 0 && blocks[len(blocks)-1].Output == "":
			blocks[len(blocks)-1].Output = content
		case info == "text":
			return nil, fmt.Errorf("line %d: the output of no commands", i+1)
		}
		i = end
	}
	return blocks, nil
}

// unindented removes the indentation of a block in a list.
func unindented(lines []string, columns int) string {
	var text []string
	for _, line := range lines {
		text = append(text, line[min(columns, len(line)-len(strings.TrimLeft(line, " "))):])
	}
	return strings.Join(text, "\n")
}

func newBlock(line int, words []string, commands string) (Block, error) {
	block := Block{Line: line, Commands: commands}
	if len(words) > 0 {
		block.Kind, words = Kind(words[0]), words[1:]
	}
	if reasons := len(words); reasons > 1 || (reasons == 1) != (block.Kind == Skip) {
		return block, fmt.Errorf("line %d: after sh there is a kind, and behind skip a reason: %v", line-1, words)
	}
	if !slices.Contains([]Kind{Once, Skip, Until, Refused}, block.Kind) {
		return block, fmt.Errorf("line %d: unknown kind %q", line-1, block.Kind)
	}
	return block, nil
}

const (
	ellipsis = "…"
	fence    = "```"
)

var (
	blanks  = regexp.MustCompile(`\s+`)
	heading = regexp.MustCompile(`^#{1,6} `)
	// wildcards turns ellipses into patterns: between words, one stands for no word, too.
	wildcards = strings.NewReplacer(" … ", ` (?:[^\n]* )?`, " …\n", "(?: [^\n]*)?\n", "…", `[^\n]*`)
)

// Matches reports whether an output is that of the document: "…" stands for anything
// within a line, and alone on a line for any lines. Blanks do not count.
func (b *Block) Matches(output string) bool {
	if b.Output == "" {
		return true
	}
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range strings.Split(strings.TrimSpace(b.Output), "\n") {
		line = strings.TrimSpace(blanks.ReplaceAllString(line, " "))
		switch line {
		case "":
		case ellipsis:
			pattern.WriteString(`(?:[^\n]*\n)*?`)
		default:
			pattern.WriteString(wildcards.Replace(regexp.QuoteMeta(line) + "\n"))
		}
	}
	pattern.WriteString(`$`)
	return regexp.MustCompile(pattern.String()).MatchString(normal(output))
}

// normal writes an output without its layout: one blank between words, no empty lines.
func normal(output string) string {
	var text strings.Builder
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(blanks.ReplaceAllString(line, " ")); line != "" {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}
