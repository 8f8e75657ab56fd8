// Command podlister is the demo's client of the Kubernetes API: it lists the pods of a namespace of
// the cluster that it was given, with the token of its service account, and serves the result.
//
// It is offloaded and runs as a process of the provider. What it uses are the token, the certificate
// authority and the address that Longshore gives the pod, as any client in a cluster does.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/longshore-dev/longshore/hack/demo/podlister/podlist"
)

func main() {
	listen := flag.String("listen", "", "address to serve on, host:port")
	account := flag.String("account", "/var/run/secrets/kubernetes.io/serviceaccount", "folder with token and ca.crt")
	namespace := flag.String("namespace", "", "namespace whose pods are listed")
	flag.Parse()
	source := &podlist.Source{
		Server:    "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")),
		TokenFile: filepath.Join(*account, "token"), AuthorityFile: filepath.Join(*account, "ca.crt"), Namespace: *namespace,
	}
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second, Handler: handler(source)}
	fmt.Fprintln(os.Stderr, "Error:", server.ListenAndServe())
	os.Exit(1)
}

// handler serves the list, which it asks the API server for at each request.
func handler(source *podlist.Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := source.Read(r.Context())
		if err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// The only error is that the caller has gone.
		_ = json.NewEncoder(w).Encode(list)
	})
}
