package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

// callReport is after how many calls the program says that it goes on.
const callReport = 20

// call calls the URLs in turn, each over a connection of its own, until the program is asked to
// end. It prints each call that fails, and now and then how many it has made.
func call(urls []string) error {
	if len(urls) == 0 {
		return errUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for i := 1; ctx.Err() == nil; i++ {
		url := urls[i%len(urls)]
		if err := callOnce(ctx, client, url); err != nil && ctx.Err() == nil {
			fmt.Printf("%s call %d of %s failed: %v\n", time.Now().UTC().Format(time.RFC3339), i, url, err)
		}
		if i%callReport == 0 {
			fmt.Printf("called %d times\n", i)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

func callOnce(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
