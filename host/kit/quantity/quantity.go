// Package quantity checks amounts that another cluster chooses. A [resource.Quantity] holds exponents
// up to two billion, and comparing or adding such amounts takes hours: they are checked before any
// arithmetic, comparison (also by DeepEqual) and formatting. The checks do none of these on an amount
// that is out of bounds.
//
// The bounds are those that Kubernetes documents for quantities: at most 2^63-1, at most nine decimals.
// A negative amount is always refused: no value that clusters exchange is negative.
package quantity

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// MaxResources bounds the resources that one list names.
	MaxResources = 128
	// maxDecimals and maxZeros are the most digits behind the point, and the most zeros of an amount
	// that is written with an exponent.
	maxDecimals, maxZeros = 9, 18
	// maxBits of the digits of an amount with maxDecimals decimals: 2^63 * 10^9.
	maxBits = 93
	// maxNameBytes bounds the name of a resource: a prefix of 253 bytes, a slash and 63 bytes.
	maxNameBytes = 253 + 1 + 63
	// maxText is the longest text of an amount in an error, in bytes. Of one with more than maxTextBits,
	// only the number of digits is written.
	maxText, maxTextBits = 40, 1000
)

var (
	errNegative = errors.New("amounts cannot be negative")
	errBounds   = fmt.Errorf("amounts can be at most %d, with at most %d decimals", math.MaxInt64, maxDecimals)
)

// Check returns an error for an amount that is negative or out of bounds. The error does not name it.
func Check(amount resource.Quantity) error {
	decimal := amount.AsDec() // changes the copy only
	digits, scale := decimal.UnscaledBig(), decimal.Scale()
	switch {
	case digits.Sign() < 0:
		return errNegative
	case scale > maxDecimals || scale < -maxZeros || digits.BitLen() > maxBits:
		return errBounds
	case decimal.Cmp(largest) > 0:
		return errBounds
	}
	return nil
}

var largest = inf.NewDec(math.MaxInt64, 0)

// CheckList returns an error for a list that names too many resources, an invalid one, or one with an
// amount that [Check] refuses.
func CheckList(list corev1.ResourceList) error {
	if len(list) > MaxResources {
		return fmt.Errorf("%d resources: at most %d can be named", len(list), MaxResources)
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if len(name) > maxNameBytes {
			return fmt.Errorf("%q…: the name of a resource has at most %d bytes", name[:maxText], maxNameBytes)
		}
		if problems := validation.IsQualifiedName(string(name)); len(problems) > 0 {
			return fmt.Errorf("%q: %s", name, problems[0])
		}
		if err := Check(list[name]); err != nil {
			return fmt.Errorf("%s=%s: %w", name, Text(list[name]), err)
		}
	}
	return nil
}

// The most that a Node can have of a resource. The scheduler multiplies it by 100 in 64 bits, cpu in thousandths: when
// that overflows, it schedules no pod for which the Node is a choice.
var (
	largestCapacity = inf.NewDec(1<<53, 0)
	largestCPU      = inf.NewDec(1<<53, 3)
)

// CheckCapacity returns an error for an amount of a resource that a Node cannot have.
func CheckCapacity(name corev1.ResourceName, amount resource.Quantity) error {
	if err := Check(amount); err != nil {
		return err
	}
	most := largestCapacity
	if name == corev1.ResourceCPU {
		most = largestCPU
	}
	if amount.AsDec().Cmp(most) > 0 {
		return fmt.Errorf("a Node can have at most %s", most)
	}
	return nil
}

// CheckCapacities returns an error for a list that [CheckList] refuses, or with an amount that a Node cannot have.
func CheckCapacities(list corev1.ResourceList) error {
	if err := CheckList(list); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := CheckCapacity(name, list[name]); err != nil {
			return fmt.Errorf("%s=%s: %w", name, Text(list[name]), err)
		}
	}
	return nil
}

// Text returns an amount for messages: cut, and of one with very many digits only their number.
func Text(amount resource.Quantity) string {
	if decimal := amount.AsDec(); decimal.UnscaledBig().BitLen() > maxTextBits {
		digits := float64(decimal.UnscaledBig().BitLen()) * math.Log10(2)
		return fmt.Sprintf("a number of about %d digits", int64(digits)-int64(decimal.Scale()))
	}
	text := amount.String()
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return text
}

// CheckAll returns an error that names the field for the first amount in a value, such as a PodSpec,
// that [Check] or [CheckList] refuses.
func CheckAll(value any) error {
	path, err := check(reflect.ValueOf(value))
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.TrimPrefix(path, "."), err)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	listType     = reflect.TypeFor[corev1.ResourceList]()
	bigType      = reflect.TypeFor[big.Int]()
	// holders caches for each type whether its values can have amounts.
	holders sync.Map
)

// check returns the first amount of a value that is refused, and its path.
func check(value reflect.Value) (path string, err error) {
	if !value.IsValid() || !holds(value.Type()) {
		return "", nil
	}
	switch value.Type() {
	case quantityType, listType:
		return "", checkAmounts(value.Interface())
	}
	switch value.Kind() { //nolint:exhaustive // Other kinds hold nothing.
	case reflect.Pointer:
		return check(value.Elem())
	case reflect.Struct:
		for i := range value.NumField() {
			if path, err := check(value.Field(i)); err != nil {
				return nameOf(value.Type().Field(i)) + path, err
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			if path, err := check(value.Index(i)); err != nil {
				return fmt.Sprintf("[%d]%s", i, path), err
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			if path, err := check(entries.Value()); err != nil {
				return fmt.Sprintf("[%.*s]%s", maxText, entries.Key(), path), err
			}
		}
	}
	return "", nil
}

func checkAmounts(value any) error {
	if list, ok := value.(corev1.ResourceList); ok {
		return CheckList(list)
	}
	amount, _ := value.(resource.Quantity)
	if err := Check(amount); err != nil {
		return fmt.Errorf("%s: %w", Text(amount), err)
	}
	return nil
}

// nameOf returns the name of a field in the API, with a point; an embedded one has none.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return ""
	}
	return "." + name
}

// holds reports whether values of a type can have amounts.
func holds(of reflect.Type) bool {
	known, ok := holders.Load(of)
	if !ok {
		known = search(of, map[reflect.Type]bool{})
		holders.Store(of, known)
	}
	return known == true
}

func search(of reflect.Type, visited map[reflect.Type]bool) bool {
	switch {
	case of == quantityType:
		return true
	case of == bigType || visited[of]:
		return false
	}
	visited[of] = true
	switch of.Kind() { //nolint:exhaustive // Other kinds hold nothing.
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return search(of.Elem(), visited)
	case reflect.Struct:
		for field := range of.Fields() {
			if field.IsExported() && search(field.Type, visited) {
				return true
			}
		}
	}
	return false
}

// semantic is equality.Semantic, with amounts that are out of bounds compared as they are written.
var semantic = func() conversion.Equalities {
	e := equality.Semantic.Copy()
	if err := e.AddFunc(func(a, b resource.Quantity) bool {
		if Check(a) == nil && Check(b) == nil {
			return a.Cmp(b) == 0
		}
		x, y := a.AsDec(), b.AsDec() // change the copies only
		return x.Scale() == y.Scale() && x.UnscaledBig().Cmp(y.UnscaledBig()) == 0
	}); err != nil {
		panic(err)
	}
	return e
}()

// Equal is equality.Semantic.DeepEqual for values with amounts that another cluster chooses.
func Equal(a, b any) bool { return semantic.DeepEqual(a, b) }
