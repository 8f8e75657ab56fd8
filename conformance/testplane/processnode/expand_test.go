package processnode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestExpandFollowsTheKubelet(t *testing.T) {
	variables := map[string]string{"POD_IP": "127.9.8.7", "EMPTY": ""}
	cases := map[string]struct{ in, want string }{
		"a variable":              {"--node-ip=$(POD_IP)", "--node-ip=127.9.8.7"},
		"two of them":             {"$(POD_IP):$(POD_IP)", "127.9.8.7:127.9.8.7"},
		"an empty one":            {"a$(EMPTY)b", "ab"},
		"an unknown one stays":    {"$(OTHER)", "$(OTHER)"},
		"a doubled dollar is one": {"$$(POD_IP)", "$(POD_IP)"},
		"a lone dollar stays":     {"5$ and $x", "5$ and $x"},
		"an open one stays":       {"$(POD_IP", "$(POD_IP"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, expand(tc.in, variables)) })
	}
}

func TestRemountReplacesMountPathsOnly(t *testing.T) {
	mounts := map[string]string{"/etc/certs": "/pods/a/certs", "/etc/certs/deep": "/pods/a/deep"}
	cases := map[string]struct{ in, want string }{
		"the path itself":          {"/etc/certs", "/pods/a/certs"},
		"below it":                 {"/etc/certs/tls.crt", "/pods/a/certs/tls.crt"},
		"the longest mount wins":   {"/etc/certs/deep/x", "/pods/a/deep/x"},
		"after the = of a flag":    {"--cert=/etc/certs/tls.crt", "--cert=/pods/a/certs/tls.crt"},
		"a longer name is another": {"/etc/certs2", "/etc/certs2"},
		"inside another path":      {"/srv/etc/certs", "/srv/etc/certs"},
		"several in a list":        {"/etc/certs/a,/etc/certs/b:/etc/certs", "/pods/a/certs/a,/pods/a/certs/b:/pods/a/certs"},
		"quoted in a sentence":     {`see "/etc/certs" there`, `see "/pods/a/certs" there`},
		"pairs inside a flag":      {"--map=a=/etc/certs/x,b=/else", "--map=a=/pods/a/certs/x,b=/else"},
		"nothing to replace":       {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, remount(tc.in, mounts)) })
	}
}

func TestProgram(t *testing.T) {
	o := &Options{
		Images: map[string]Program{
			"longshore/longshore":     {Path: "/bin/longshore"},
			"longshore/longshore:old": {Path: "/bin/old"},
		},
		Commands: map[string]Program{"/usr/bin/virtual-kubelet": {Path: "/bin/longshore", Args: []string{"kubelet"}}},
	}
	cases := map[string]struct {
		container corev1.Container
		want      Program
		err       string
	}{
		"the image's default": {
			container: corev1.Container{Image: "longshore/longshore:1.0", Args: []string{"manager"}},
			want:      Program{Path: "/bin/longshore", Args: []string{"manager"}}},
		"the image with its tag wins": {
			container: corev1.Container{Image: "longshore/longshore:old"}, want: Program{Path: "/bin/old"}},
		"the image by digest": {
			container: corev1.Container{Image: "longshore/longshore@sha256:ab"}, want: Program{Path: "/bin/longshore"}},
		"a known command": {
			container: corev1.Container{Image: "any", Command: []string{"/usr/bin/virtual-kubelet"}, Args: []string{"--x"}},
			want:      Program{Path: "/bin/longshore", Args: []string{"kubelet", "--x"}}},
		"an unknown command": {container: corev1.Container{Command: []string{"/bin/sh"}}, err: `command "/bin/sh"`},
		"an unknown image":   {container: corev1.Container{Image: "registry:5000/other"}, err: `image "registry:5000/other" is unknown to the process node, which knows longshore/longshore, longshore/longshore:old`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := o.program(&tc.container)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}
