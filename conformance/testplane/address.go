package testplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

// DefaultPort is the API server's port unless Options set another. Each cluster has its own
// address, so all can use the same port.
const DefaultPort = 6443

// reservationPort is held open on an address for as long as it is taken: the kernel
// keeps two clones, two users and parallel tests apart, and frees it with the process.
const reservationPort = 6442

// Address is a reserved loopback address: ReserveAddress does not return it again, in any
// process, until it is released or this process ends.
type Address struct {
	// IP is 127.x.y.z.
	IP string

	held net.Listener
}

// ReserveAddress takes a free loopback address. Linux routes all of 127.0.0.0/8 to
// this machine without configuration.
func ReserveAddress() (*Address, error) {
	const attempts = 100
	var last error
	for range attempts {
		// Below 127.64 is what people choose by hand.
		ip := net.IPv4(127, byte(64+rand.IntN(190)), byte(rand.IntN(256)), byte(1+rand.IntN(254))).String()
		address, err := HoldAddress(ip)
		if err == nil {
			return address, nil
		}
		last = err
	}
	return nil, fmt.Errorf("reserving a loopback address, %d attempts: %w", attempts, last)
}

// HoldAddress takes the given loopback address, unless it is taken or something serves
// on its API port.
func HoldAddress(ip string) (*Address, error) {
	if parsed := net.ParseIP(ip); parsed == nil || !parsed.IsLoopback() {
		return nil, fmt.Errorf("%q is not a loopback address", ip)
	}
	return holdAny(ip)
}

// holdAny takes an address of any interface.
func holdAny(ip string) (*Address, error) {
	held, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(reservationPort)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is taken by another cluster on this machine (port %d): %w", ip, reservationPort, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reserving the address %s: %w", ip, err)
	}
	address := &Address{IP: ip, held: held}
	if err := portFree(ip, DefaultPort); err != nil {
		address.Release()
		return nil, err
	}
	return address, nil
}

// Release gives the address back. A second call does nothing.
func (a *Address) Release() {
	// The only error is that it was closed before.
	_ = a.held.Close()
}

// portPatience is how long a port may be in use without a server: a process that is forked while
// portFree listens holds the socket until it executes its program.
const portPatience = time.Second

// portFree returns an error if the port is in use, and stays so for portPatience.
func portFree(ip string, port int) error {
	endpoint := net.JoinHostPort(ip, strconv.Itoa(port))
	listener, err := net.Listen("tcp", endpoint)
	for began := time.Now(); errors.Is(err, syscall.EADDRINUSE) && time.Since(began) < portPatience; {
		time.Sleep(portPatience / 100)
		listener, err = net.Listen("tcp", endpoint)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port conflict: another process serves on %s: stop it, or choose another address or port: %w", endpoint, err)
	}
	if err != nil {
		return fmt.Errorf("trying to serve on %s: %w", endpoint, err)
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("trying to serve on %s: %w", endpoint, err)
	}
	return nil
}

// splitHosts sorts IP addresses from host names.
func splitHosts(hosts []string) (ips []net.IP, names []string) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		} else {
			names = append(names, host)
		}
	}
	return ips, names
}
