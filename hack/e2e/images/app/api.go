package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// askAPIServer asks the API server that the pod was given, as its service account.
func askAPIServer(path string) error {
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return errors.New("ca.crt holds no certificate")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return get(client, "https://"+host+path, string(token))
}

// printCertificate prints the certificate with which a server serves TLS.
func printCertificate(address string) error {
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	err = pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: connection.ConnectionState().PeerCertificates[0].Raw})
	return errors.Join(err, connection.Close())
}
