package room_test

import (
	"slices"
	"testing"

	"github.com/longshore-dev/longshore/sdk/internal/room"
)

type value struct {
	text string
	next *value
}

// Everything that a supply hands out is zero, and not shared, however much is taken
// and whether or not it is filled in between.
func TestNothingIsHandedOutTwice(t *testing.T) {
	const portion = 8
	supply := room.New[value](portion)
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
		one := supply.One()
		if *one != (value{}) {
			t.Fatalf("got %v, want a zero value", *one)
		}
		one.text, one.next = "one", one
		ones = append(ones, one)

		list := supply.Open()
		inner := supply.Open() // while the other one is open
		for range n % (2 * portion) {
			list = append(list, value{})
		}
		inner = append(inner, value{})
		keep(supply.Keep(list))
		keep(supply.Keep(inner))
		empty := supply.Empty(n % (2 * portion))
		if len(empty) != 0 || cap(empty) != n%(2*portion) {
			t.Fatalf("got room for %d, want %d", cap(empty), n%(2*portion))
		}
		keep(empty[:cap(empty)])
		if n%7 == 0 {
			room.Fill()
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

func TestAListIsKeptWithoutTheRoomBehindIt(t *testing.T) {
	supply := room.New[int](4)
	first := supply.Keep(append(supply.Open(), 1, 2))
	second := supply.Keep(append(supply.Open(), 3))
	_ = append(first, 9)
	if !slices.Equal(first, []int{1, 2}) || !slices.Equal(second, []int{3}) || cap(first) != 2 {
		t.Fatalf("got %v with room for %d, and %v", first, cap(first), second)
	}
	if none := supply.Keep(supply.Open()); none == nil || len(none) != 0 {
		t.Fatalf("an empty list is kept as %#v", none)
	}
	// The supply is used up exactly: there still is an empty list, which is not nil.
	supply.Keep(append(supply.Open(), 4))
	if none := supply.Keep(supply.Open()); none == nil {
		t.Fatal("an empty list is kept as nil")
	}
}

// What loading prepares is enough for the calls after it.
func TestFillLeavesAtLeastHalf(t *testing.T) {
	const portion = 100
	supply := room.New[int](portion)
	for range 500 {
		supply.One()
		room.Fill()
		before := supply.One()
		if n := testing.AllocsPerRun(1, func() { supply.Empty(portion/4 - 1) }); n != 0 {
			t.Fatalf("%v allocations after the supply was filled", n)
		}
		_ = before
	}
}
