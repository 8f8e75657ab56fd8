package arena_test

import (
	"slices"
	"testing"

	"github.com/longshore-dev/longshore/sdk/internal/arena"
)

type value struct {
	text string
	next *value
}

// All memory of an arena is zero and not shared, however much is taken, and whether or not the
// arena is refilled in between.
func TestMemoryIsReturnedOnce(t *testing.T) {
	const block = 8
	values := arena.New[value](block)
	var ones []*value
	var lists [][]value
	keep := func(list []value) {
		for i := range list {
			if list[i] != (value{}) {
				t.Fatalf("a list holds %v before it is written to", list[i])
			}
			list[i].text = "list"
		}
		lists = append(lists, list)
	}
	for n := range 200 {
		one := values.One()
		if *one != (value{}) {
			t.Fatalf("got %v, want a zero value", *one)
		}
		one.text, one.next = "one", one
		ones = append(ones, one)

		list := values.Open()
		inner := values.Open() // while the other one is open
		for range n % (2 * block) {
			list = append(list, value{})
		}
		inner = append(inner, value{})
		keep(values.Close(list))
		keep(values.Close(inner))
		empty := values.Make(n % (2 * block))
		if len(empty) != 0 || cap(empty) != n%(2*block) {
			t.Fatalf("got a capacity of %d, want %d", cap(empty), n%(2*block))
		}
		keep(empty[:cap(empty)])
		if n%7 == 0 {
			arena.Refill()
		}
	}
	for _, one := range ones {
		if one.text != "one" {
			t.Fatalf("a value became %q", one.text)
		}
		one.text = "seen"
	}
	for _, list := range lists {
		for i := range list {
			if list[i].text != "list" {
				t.Fatalf("an item became %q", list[i].text)
			}
			list[i].text = "seen"
		}
	}
}

func TestAListIsClosedWithoutItsUnusedCapacity(t *testing.T) {
	values := arena.New[int](4)
	first := values.Close(append(values.Open(), 1, 2))
	second := values.Close(append(values.Open(), 3))
	_ = append(first, 9)
	if !slices.Equal(first, []int{1, 2}) || !slices.Equal(second, []int{3}) || cap(first) != 2 {
		t.Fatalf("got %v with capacity %d, and %v", first, cap(first), second)
	}
	if none := values.Close(values.Open()); none == nil || len(none) != 0 {
		t.Fatalf("an empty list is closed as %#v", none)
	}
	// The arena is empty now: there still is an empty list, which is not nil.
	values.Close(append(values.Open(), 4))
	if none := values.Close(values.Open()); none == nil {
		t.Fatal("an empty list is closed as nil")
	}
}

// What loading prepares is enough for the calls after it.
func TestRefillLeavesAtLeastHalf(t *testing.T) {
	const block = 100
	values := arena.New[int](block)
	for range 500 {
		values.One()
		arena.Refill()
		before := values.One()
		if n := testing.AllocsPerRun(1, func() { values.Make(block/4 - 1) }); n != 0 {
			t.Fatalf("%v allocations after the arena was refilled", n)
		}
		_ = before
	}
}
