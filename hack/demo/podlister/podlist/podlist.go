// Package podlist lists the pods of a namespace as a client in a pod does, without client-go.
package podlist

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// List is what the API server answered.
type List struct {
	// User is the name under which the API server knows the client.
	User string
	// Pods are the names of the namespace's pods, in the order of the API server.
	Pods []string
}

// Source is an API server and the credentials for it.
type Source struct {
	// Server is the URL of the API server.
	Server string
	// TokenFile and AuthorityFile are read at each request: a token is renewed in its file.
	TokenFile, AuthorityFile string
	// Namespace is where the pods are.
	Namespace string
}

// Read asks the API server who the client is, and for the pods.
func (s *Source) Read(ctx context.Context) (*List, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	var review struct {
		Status struct{ UserInfo struct{ Username string } }
	}
	request := []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if err := s.do(ctx, client, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", request, &review); err != nil {
		return nil, err
	}
	var pods struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := s.do(ctx, client, http.MethodGet, "/api/v1/namespaces/"+s.Namespace+"/pods", nil, &pods); err != nil {
		return nil, err
	}
	list := &List{User: review.Status.UserInfo.Username, Pods: make([]string, 0, len(pods.Items))}
	for _, pod := range pods.Items {
		list.Pods = append(list.Pods, pod.Metadata.Name)
	}
	return list, nil
}

func (s *Source) client() (*http.Client, error) {
	authority, err := os.ReadFile(s.AuthorityFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in %q", s.AuthorityFile)
	}
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}, nil
}

// do sends a request and decodes the answer.
func (s *Source) do(ctx context.Context, client *http.Client, method, path string, body []byte, answer any) (err error) {
	token, err := os.ReadFile(s.TokenFile)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.Server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking the API server: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of the API server: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("API server answered %s to %s %s: %s", response.Status, method, path, bytes.TrimSpace(content))
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("decoding the answer of the API server: %w", err)
	}
	return nil
}
