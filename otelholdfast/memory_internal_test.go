package otelholdfast

import (
	"slices"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/holdfast-go/holdfast"
)

// TestNothingIsKept ends leases, also two with the same key, and checks that nothing is left of them.
func TestNothingIsKept(t *testing.T) {
	o, err := New(WithTracerProvider(trace.NewTracerProvider()))
	if err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		o.holds.Range(func(any, any) bool { n++; return true })
		return n
	}
	request := holdfast.Request{Op: "lock", Name: "job", Store: "memory"}
	var ends []func(error)
	for _, token := range []holdfast.Token{1 << 8, 2 << 8, 2 << 8} { // two servers in memory may give the same
		_, end := o.Holding(t.Context(), request, token)
		ends = append(ends, end)
	}
	if n := count(); n != 2 {
		t.Errorf("%d leases can be found, want 2", n)
	}
	ends[1](holdfast.ErrNotHeld) // the first with its token: the other can still be found
	if n := count(); n != 2 {
		t.Errorf("%d leases can be found after one has ended, want 2", n)
	}
	ends[0](holdfast.ErrNotHeld)
	ends[2](holdfast.ErrNotHeld)
	if n := count(); n != 0 {
		t.Errorf("%d leases are kept after their end", n)
	}
}

// TestManyNames uses more names than are kept.
func TestManyNames(t *testing.T) {
	o, err := New(WithNameAttribute(func(name string) string { return name }))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxSeries {
		request := holdfast.Request{Op: "lock", Name: strconv.Itoa(i), Store: "memory"}
		s := o.series.of(&request)
		if !slices.Contains(s.attributes, keyName.String(request.Name)) {
			t.Fatalf("the series of %s has %v", request.Name, s.attributes)
		}
		if again := o.series.of(&request); (again == s) != (i < maxSeries) {
			t.Fatalf("series %d: kept: %v", i, again == s)
		}
	}
	if n := len(o.series.known); n != maxSeries {
		t.Errorf("%d series are kept, want %d", n, maxSeries)
	}
}
