package processnode

import (
	"path"
	"strings"
)

// expand replaces $(NAME) by a variable's value as the kubelet does: unknown names stay
// as they are, $$ is a dollar.
func expand(text string, variables map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch text[i+1] {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(text[i:], ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			name := text[i+2 : i+end]
			if value, ok := variables[name]; ok {
				out.WriteString(value)
			} else {
				out.WriteString(text[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// remount replaces mount paths in an argument or an environment value by the folders
// that stand for them: at the beginning, or after the "=" of a flag.
func remount(text string, mounts map[string]string) string {
	prefix, value := "", text
	if strings.HasPrefix(text, "-") {
		if name, after, ok := strings.Cut(text, "="); ok {
			prefix, value = name+"=", after
		}
	}
	longest := ""
	for mount := range mounts {
		if len(mount) > len(longest) && (value == mount || strings.HasPrefix(value, mount+"/")) {
			longest = mount
		}
	}
	if longest == "" {
		return text
	}
	return prefix + path.Join(mounts[longest], strings.TrimPrefix(value, longest))
}
