package processnode

import "strings"

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

// remount replaces mount paths by the folders that stand for them, wherever a path can
// begin: at the start, and after one of the separators. Of mounts inside each other the
// longest one counts.
func remount(text string, mounts map[string]string) string {
	const separators = "=,;: \t\n\"'"
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		longest := ""
		if i == 0 || strings.IndexByte(separators, text[i-1]) >= 0 {
			for mount := range mounts {
				rest, ok := strings.CutPrefix(text[i:], mount)
				ends := rest == "" || strings.IndexByte(separators+"/", rest[0]) >= 0
				if ok && ends && len(mount) > len(longest) {
					longest = mount
				}
			}
		}
		if longest == "" {
			out.WriteByte(text[i])
			continue
		}
		out.WriteString(mounts[longest])
		i += len(longest) - 1
	}
	return out.String()
}
