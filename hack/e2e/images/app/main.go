// Command app is the application of the tests, alone in its image:
//
//	app serve          serves HTTP until it is asked to end, and echoes its standard input
//	app get URL        prints the answer of a GET
//	app call URL...    calls the URLs in turn until it is asked to end, and prints failures
//	app lookup NAME    prints the addresses of a name
//	app certificate HOST:PORT prints the certificate of a TLS server
//	app api PATH       prints the answer of the API server to the pod's service account
//	app print TEXT     prints the text, and ends with code 0
//	app fail TEXT      prints the text, and ends with code 3
//	app wait FILE      waits until the file exists
//	app cat FILE       prints a file
//	app write FILE TEXT
//	tar, test          what `kubectl cp` runs; links to app
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

var errUsage = errors.New("usage: app serve|get URL|call URL...|lookup NAME|certificate HOST:PORT|api PATH|print TEXT|fail TEXT|wait FILE|cat FILE|write FILE TEXT")

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "app: %v\n", err)
		os.Exit(3)
	}
}

func run(args []string) error {
	switch filepath.Base(args[0]) {
	case "tar":
		return runTar(args[1:], os.Stdin, os.Stdout)
	case "test":
		return isDirectory(args[1:])
	}
	if len(args) < 2 {
		return errUsage
	}
	argument := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch args[1] {
	case "serve":
		return serve()
	case "print":
		fmt.Println(argument(2))
		return nil
	case "fail":
		return errors.New(argument(2))
	case "wait":
		return waitFor(argument(2))
	case "cat":
		return printFile(argument(2))
	case "write":
		return os.WriteFile(argument(2), []byte(argument(3)), 0o600)
	default:
		return ask(args[1], argument(2), args[2:])
	}
}

// ask runs the commands that ask a server.
func ask(command, argument string, arguments []string) error {
	switch command {
	case "get":
		return get(http.DefaultClient, argument, "")
	case "call":
		return call(arguments)
	case "lookup":
		return lookUp(argument)
	case "certificate":
		return printCertificate(argument)
	case "api":
		return askAPIServer(argument)
	default:
		return errUsage
	}
}

// isDirectory is `test -d`.
func isDirectory(args []string) error {
	if len(args) != 2 || args[0] != "-d" {
		return errors.New("test: only -d is supported")
	}
	info, err := os.Stat(args[1])
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", args[1])
	}
	return nil
}

func printFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Print(string(content))
	return nil
}

// lookUp prints the addresses of a name, one a line, as the pod's /etc/resolv.conf has them found.
func lookUp(name string) error {
	addresses, err := net.DefaultResolver.LookupHost(context.Background(), name)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(addresses, "\n"))
	return nil
}

func waitFor(path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// serve answers at PORT, by default 8080:
//
//	/            the name of the pod and the value of GREETING
//	/file?path=  a file
//	/healthz     ok, until /break was asked for
//	/readyz      ok, unless /unready was asked for; /ready undoes that
//	/busy        nothing: a processor is kept busy, until /idle was asked for
//	/exit        nothing: the program ends with code 7
func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go echo(os.Stdin)
	var state state
	go state.work()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Printf("%s %s\n", r.Method, r.URL.Path)
		fmt.Fprintf(w, "%s %s\n", os.Getenv("POD_NAME"), os.Getenv("GREETING"))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := os.ReadFile(r.URL.Query().Get("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(content)
	})
	mux.HandleFunc("/healthz", state.answer(&state.broken))
	mux.HandleFunc("/readyz", state.answer(&state.unready))
	mux.HandleFunc("/break", state.set(&state.broken, true))
	mux.HandleFunc("/unready", state.set(&state.unready, true))
	mux.HandleFunc("/ready", state.set(&state.unready, false))
	mux.HandleFunc("/busy", state.set(&state.busy, true))
	mux.HandleFunc("/idle", state.set(&state.busy, false))
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(7) })
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	server := &http.Server{Addr: ":" + port, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println("serving")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	fmt.Println("asked to end")
	return nil
}

// state is what the probes of a pod are answered, and whether it works.
type state struct {
	mu                    sync.Mutex
	broken, unready, busy bool
}

// work keeps a processor busy while it is to be.
func (s *state) work() {
	for range time.Tick(50 * time.Millisecond) {
		for s.isBusy() {
		}
	}
}

func (s *state) isBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

func (s *state) answer(failing *bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if *failing {
			http.Error(w, "failing", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

func (s *state) set(failing *bool, value bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		*failing = value
		fmt.Fprintln(w, "done")
	}
}

func echo(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fmt.Printf("echo %s\n", lines.Text())
	}
}

// get prints the answer; another status than 200 is an error.
func get(client *http.Client, url, token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
