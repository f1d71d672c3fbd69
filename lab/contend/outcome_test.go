package contend

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

func TestOutside(t *testing.T) {
	o := &Outcome{}
	for _, v := range []history.Interval{{Begin: 1, End: 9}, {Begin: 5, End: 10}, {Begin: 12, End: 15},
		{Begin: 5, End: 30}, {Begin: 20, End: 25}, {Begin: 21, End: 22}} {
		o.Holds = append(o.Holds, history.Hold{Interval: v})
	}
	outside := o.Outside(history.Interval{Begin: 10, End: 20})
	if want := []history.Hold{o.Holds[0], o.Holds[5]}; !reflect.DeepEqual(outside, want) {
		t.Errorf("outside are %v, want %v", outside, want)
	}
}

// Only what a fault can explain is taken for a fault.
func TestTally(t *testing.T) {
	var a Tally
	a.Acquired()
	fault := &store.Fault{Store: "the store", Err: errors.New("silent")}
	for _, err := range []error{
		fault,
		fmt.Errorf("lock: %w", fault),
		fmt.Errorf("unlock: %w", holdfast.ErrLost),
		&store.Fault{Store: "the store", Final: true, Err: errors.New("wrong password")},
		holdfast.ErrDeadlock,
	} {
		a.Failed(err)
	}
	want := Report{
		Process: "a", Acquired: 1, Lost: 1,
		Faults: map[string]int{"the store: silent": 2},
		Wrong:  map[string]int{"the store: wrong password": 1, holdfast.ErrDeadlock.Error(): 1},
	}
	if got := a.Report("a"); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v, want %+v", *got, want)
	}
	o := &Outcome{Reports: []Report{want, want}}
	if total := o.Total(); total.Acquired != 2 || total.Lost != 2 || total.Faults["the store: silent"] != 4 ||
		len(total.Wrong) != 2 {
		t.Errorf("the total is %+v", total)
	}
}

// However many errors there are, a report has an end.
func TestManyErrors(t *testing.T) {
	var a Tally
	for i := range 10 * maxTexts {
		a.Failed(fmt.Errorf("error %d", i))
	}
	if wrong := a.Report("a").Wrong; len(wrong) != maxTexts+1 || wrong[theRest] != 9*maxTexts {
		t.Errorf("%d texts, and %d others", len(wrong), wrong[theRest])
	}
}

// Errors that differ only in how long something takes are one kind, and others are not.
func TestKindsOfErrors(t *testing.T) {
	var texts map[string]int
	for _, text := range []string{
		"127.0.0.1:10001: no vote for another 9.345s", "127.0.0.1:10001: no vote for another 850ms",
		"127.0.0.1:10001: no vote for another 1m2s",
		"127.0.0.1:10002: no vote for another 850ms", "it is at 42",
	} {
		texts = count(texts, text)
	}
	want := map[string]int{
		"127.0.0.1:10001: no vote for another …": 3,
		"127.0.0.1:10002: no vote for another …": 1,
		"it is at 42": 1,
	}
	if !maps.Equal(texts, want) {
		t.Errorf("%v, want %v", texts, want)
	}
}
