// Package budget limits what another cluster has this one write. Its objects are copied, and it can
// change them a thousand times a second.
package budget

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ObjectBurst is how many writes of one object are made at once. A pod that starts has five.
	ObjectBurst = 30
	// ObjectInterval is how often one more is made.
	ObjectInterval = 2 * time.Second
	// burst is how much is written at once of all objects together, in KiB, and perSecond how much more. etcd has
	// room for 2 GiB and keeps what was written in the last five minutes: 10,000 pods that start have 200 MiB.
	burst     = 256 << 10
	perSecond = 1 << 10
	// least is what a write counts at least, in KiB: an object is stored whole, and each write wakes controllers.
	least = 4
)

// Budget is that of all writes of one peer. It is safe for concurrent use.
type Budget struct{ all *rate.Limiter }

// New returns a budget of which nothing is used.
func New() *Budget { return &Budget{all: rate.NewLimiter(perSecond, burst)} }

// Object counts the writes of one object. The zero value is an object without any.
type Object struct {
	uid    types.UID
	writes *rate.Limiter
}

// Take counts a write of an object, which has some bytes then, and returns zero. If it is one too many, it
// counts nothing and returns how long to wait; what is written then is the newest state. An object of
// another UID, which this cluster has created, begins anew.
func (b *Budget) Take(object *Object, uid types.UID, bytes int, now time.Time) time.Duration {
	if object.writes == nil || object.uid != uid {
		object.uid, object.writes = uid, rate.NewLimiter(rate.Every(ObjectInterval), ObjectBurst)
	}
	if missing := 1 - object.writes.TokensAt(now); missing > 0 {
		return time.Duration(missing*float64(ObjectInterval)) + time.Millisecond
	}
	if !b.all.AllowN(now, min(max(bytes>>10, least), burst)) {
		return ObjectInterval
	}
	object.writes.AllowN(now, 1)
	return 0
}
