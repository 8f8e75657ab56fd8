package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Measurement is what the ordinary requests of a point took.
type Measurement struct {
	Figures `json:",inline"`

	// Calls that were timed, and their Time in nanoseconds, without the projection of facts and
	// the application of answers. It has no limit.
	Calls int          `json:"calls"`
	Time  Distribution `json:"time"`
}

// Bench measures a module with the requests that [Conform] asks as ordinary ones: each is
// called a number of times, after one call that is not timed. now is a clock.
func Bench(ctx context.Context, raw []byte, options Options, calls int, now func() time.Time) (all []Measurement, err error) {
	host, err := NewLongshore(ctx, raw, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, host.Close(ctx)) }()
	r := &run{hosts: &hosts{ours: host}, options: &options, manifest: host.Manifest()}
	if err := r.collectSettings(); err != nil {
		return nil, err
	}
	for i := range r.manifest.Points {
		measured, err := r.measure(ctx, &r.manifest.Points[i], calls, now)
		if err != nil {
			return nil, err
		}
		if measured != nil {
			all = append(all, *measured)
		}
	}
	return all, nil
}

// measure returns nil if no request reaches the module.
func (r *run) measure(ctx context.Context, declared *contract.PointManifest, calls int, now func() time.Time) (*Measurement, error) {
	questions, err := r.questions(declared)
	if err != nil {
		return nil, err
	}
	var times, fuel, memory []uint64
	for _, q := range questions {
		t, err := r.trial(q)
		if err != nil {
			return nil, err
		}
		answer, err := t.Ask(ctx, q.ask())
		if rule, err := faultOf(err, q, answer.Call.Answer); err != nil && rule == "" {
			return nil, err
		}
		if answer.Call.Request == nil {
			continue
		}
		fuel, memory = append(fuel, answer.Call.Stats.Ticks), append(memory, answer.Call.Stats.MemoryBytes)
		for range calls {
			begun := now()
			_, _, err := r.hosts.ours.module.Call(ctx, q.point.Export(), answer.Call.Request)
			times = append(times, uint64(max(0, now().Sub(begun).Nanoseconds())))
			if ctx.Err() != nil {
				return nil, fmt.Errorf("measuring the module: %w", errors.Join(ctx.Err(), err))
			}
		}
	}
	if len(fuel) == 0 || len(times) == 0 {
		return nil, nil
	}
	return &Measurement{
		Figures: Figures{
			Point: declared.Point, Requests: len(fuel),
			Fuel: distribution(fuel, contract.DefaultFuel), Memory: distribution(memory, contract.DefaultMemoryBytes),
		},
		Calls: len(times), Time: distribution(times, 0),
	}, nil
}
